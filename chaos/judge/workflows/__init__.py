"""Promises about workflows: each task starts once what it needs has come about, once, and a run ends once.

Runs are those of which a call or the ledger tells, or a schedule and the receiver's log. How executions of tasks are
repeated, fenced and doubled is judged with all others (``executions``, ``firings``); this adds what only a graph, a
map, a wait or a caller can break. A retry begins a new generation of a run: each generation is judged for itself.
"""
