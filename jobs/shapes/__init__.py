"""What every object of the API looks like, once: pydantic models that read, refuse, render and describe.

Whether what a caller names exists (a job type, a secret, room under a quota) is asked afterwards, by ``jobs.actions``.
"""
