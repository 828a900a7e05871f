"""Past firings: those that an outage left behind, and those that a backfill asks for (DESIGN §9, misfire).

``walk`` takes catch-up and moves it on; ``ledger`` records the firings that do not run; ``zones`` finds the jobs whose
next instants move under new rules of time zones. The tables are the models ``CatchUp`` and ``SkippedRange``.
Everything here joins the caller's transaction, so a step that dies is repeated.
"""
