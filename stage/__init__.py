"""What every play needs: processes to start, watch and stop, and waiting. For ``chaos``, ``benchmarks`` and ``tests``.

Nothing here knows Django or a table of Carillon's, and nothing of the product imports it.
"""
