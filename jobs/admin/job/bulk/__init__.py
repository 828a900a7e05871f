"""One thing done to many jobs from their list: those that were ticked, or all that match its filter."""
