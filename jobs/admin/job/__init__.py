"""A job: its list, its page, its form."""
