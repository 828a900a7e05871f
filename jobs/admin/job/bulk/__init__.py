"""One act on many jobs from their list: on the ticked ones, or on all that match its filter."""
