"""Promises about tasks that are runs of other workflows: each start begins one inner run and ends as that does, and
none outlives its outer run.

An inner run is judged as any other run is, by its own graph (``told``, ``started``, ``ledger``). This package judges it
against its outer run: which inner runs there must be (``begun``), their input (``given``), how their task ends
(``ends``), and how they end when the outer run is cancelled or its deadline is over (``stops``). Only the outer run
controls an inner run: no caller begins, steers or retries one.
"""
