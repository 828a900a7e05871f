"""Actions on many jobs or triggers by one call."""
