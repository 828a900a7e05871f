"""What the API answers, for OpenAPI, and for rendering triggers and attempts. What it takes: ``jobs.shapes``."""
