"""Peers that decide when: Celery's beats and APScheduler. Whatever they start stamps its start into Redis."""
