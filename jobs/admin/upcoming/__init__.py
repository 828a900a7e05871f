"""What fires in the time to come."""
