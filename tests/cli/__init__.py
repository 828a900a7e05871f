"""The command line, against the API as it is."""
