"""Django's Postgres backend, with errors that show no values (``ENGINE = "scheduler_project.database"``)."""
