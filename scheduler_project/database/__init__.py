"""Django's Postgres, whose errors tell no values (``ENGINE = "scheduler_project.database"``)."""
