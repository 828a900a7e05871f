"""Our changes to Celery's processes: how events are published, which results are kept, how memory is spared."""
