"""``manage.py demo``: the whole system, sample tenants and jobs, a receiver, and a verdict from the receiver's log.

The demo is a client like any other. It starts ``manage.py up`` beside itself, speaks the REST API, and judges by the
requests that arrived over HTTP. ``runner`` runs it from start to exit code.
"""
