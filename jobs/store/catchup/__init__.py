"""Firings of the past: what an outage left behind, and what a backfill asks for (DESIGN §9, misfire).

``walk`` takes catch-up in hand and moves it on; ``ledger`` puts on record what does not run; ``zones`` finds the jobs
whose next instants new rules of time zones move. The tables are the model
``CatchUp`` and ``SkippedRange``. Everything here joins the caller's transaction, so a step that dies is repeated.
"""
