"""Shares: scarce resources of a worker process that asynchronous handlers need, shared by tenant.

``places``: how many calls are at work at once; ``look_ups``: threads in which names are resolved.
"""
