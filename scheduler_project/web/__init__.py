"""How requests come in: a gunicorn worker that gives threads to whole requests only, and what proxies may say."""
