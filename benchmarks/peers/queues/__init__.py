"""Peers that carry work to workers: raw Celery and procrastinate."""
