"""The shape of every object of the API, told once: pydantic models that read, refuse, render and describe.

``jobs.actions`` asks afterwards whether the things that a caller names exist (a job type, a secret, room under a
quota).
"""
