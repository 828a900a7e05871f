"""What the pages of the console have in common: lists that never count, cells, writes behind a confirmation."""
