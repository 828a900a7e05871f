"""The firings of the time to come."""
