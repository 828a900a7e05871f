"""The ``carillon`` command: a client of the API, and nothing of the server.

It imports neither Django nor ``jobs`` and ``tenants``, so that it can be installed by itself; import-linter holds it to
that. ``client`` speaks HTTP, ``output`` prints, ``commands`` has one module a noun, ``files`` reads and applies job
definitions, ``crontab`` and ``celery_beat`` translate the schedules of other schedulers. ``workflows`` is for programs
that describe a workflow.
"""
