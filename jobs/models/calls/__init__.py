"""What is kept of calls of the API beside what they wrote."""
