"""What services are told of: the event feed."""
