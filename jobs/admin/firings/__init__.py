"""Firings and their ends: triggers, their attempts, dead letters, and the results that Celery kept of messages."""
