"""What running processes can be told by operators."""
