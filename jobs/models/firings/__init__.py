"""A job's firings: what is expected of it, what was tried, what was skipped, what is still to be caught up with."""
