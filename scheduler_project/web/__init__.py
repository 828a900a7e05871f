"""How requests come in: a gunicorn worker that gives threads only to whole requests, and the trusted proxy headers."""
