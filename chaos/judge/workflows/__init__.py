"""Promises about workflows: each task starts once, after its conditions are met, and a run ends once.

Runs are known from a call or the ledger, or from a schedule and the receiver's log. How executions of tasks are
repeated, fenced and doubled is judged with all others (``executions``, ``firings``). This package adds the promises
that only a graph, a map, a wait or a caller can break. A retry begins a new generation of a run: each generation is
judged for itself.
"""
