"""Every user-facing write, one function each: the API, the admin and commands call nothing else to write."""
