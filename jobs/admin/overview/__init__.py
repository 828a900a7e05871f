"""The console's first page: whether all is well, and if not, why."""
