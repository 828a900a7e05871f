"""One module a noun: each command parses, makes its calls and prints."""
