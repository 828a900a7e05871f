"""Archives: partitions past retention are written to a directory or a bucket before they are dropped.

Rows are JSON objects as Postgres writes them, one per line, in the order of their key. So the checksum of the lines is
that of the rows, before they were dropped and after they were restored.
"""

from jobs.store.archive.place import FAULTS, Damaged, Manifest, Place
from jobs.store.archive.reading import restore, verify
from jobs.store.archive.writing import is_whole, write

__all__ = ("FAULTS", "Damaged", "Manifest", "Place", "is_whole", "restore", "verify", "write")
