"""What of Celery's worker is ours: how it publishes task events, and what it keeps of results."""
