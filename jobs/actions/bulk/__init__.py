"""What is done to many jobs or triggers by one call."""
