"""The rows a filter means: for lists of the API, for operations on all that match, for the console's bulk actions."""
