"""``python -m carillon``."""

from carillon.app import main

main()
