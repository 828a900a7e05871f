"""What became of firings: triggers, their attempts, dead letters, and what Celery kept of messages."""
