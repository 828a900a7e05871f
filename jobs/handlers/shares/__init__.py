"""Shares: what a worker process has few of and asynchronous handlers need, shared by tenant.

``places``: how many are at work at once; ``look_ups``: threads in which names are resolved.
"""
