"""Peers that decide when work starts: Celery's beats and APScheduler. Each execution stamps its start into Redis."""
