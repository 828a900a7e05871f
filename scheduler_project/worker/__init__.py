"""What of Celery's processes is ours: how events are published, which results are kept, what memory is spared."""
