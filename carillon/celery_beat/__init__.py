"""The schedules in django-celery-beat's tables, to job definitions of the type ``celery_task``."""
