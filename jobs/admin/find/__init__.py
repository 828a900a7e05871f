"""Find anything: the palette of Ctrl+K, and the page of it."""
