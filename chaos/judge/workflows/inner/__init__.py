"""Promises about tasks that are runs of other workflows: each start begins one inner run and ends as that does, and
none outlives its outer run.

An inner run is judged as any other run is, by its own graph (``told``, ``started``, ``ledger``). Here is what lies
between it and its outer run: which there must be (``begun``), what it begins with (``given``), how its task ends
(``ends``), and what becomes of it when the outer run is cancelled or its deadline is over (``stops``). Only its outer
run has to do with it: no caller begins, steers or retries one.
"""
