"""The common parts of the console's pages: lists that never count, cells, writes behind a confirmation."""
