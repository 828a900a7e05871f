"""A job's firings: the expected ones, their attempts, the skipped ones, and those that must still be caught up with."""
