"""One module for each noun: each command parses, makes its calls and prints."""
