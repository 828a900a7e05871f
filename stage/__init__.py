"""Shared by ``chaos``, ``benchmarks`` and ``tests``: starting, watching and stopping processes, and waiting.

Nothing here knows Django or a table of Carillon's, and no part of the product imports it.
"""
