"""Python's garbage collector, told what a long-lived process never throws away."""

import gc

#: Objects made before the youngest generation is looked through. A batch, or a page of an answer, makes many and keeps
#: them until it ends, so that Python's 700 would have them looked through again and again for nothing.
YOUNGEST = 10_000
#: Bytes of requests that are read before all is looked through: what they became is ten times as large.
MAX_READ_BYTES = 4 * 1024 * 1024

_read_bytes = 0


def let_load() -> None:
    """Look for garbage less often from here on. Importing makes none, and looking for it was a tenth of each start."""
    gc.set_threshold(YOUNGEST, *gc.get_threshold()[1:])


def spare() -> None:
    """Leave alone from here on what has been loaded so far: looking through it was a sixth of a worker's Python, and
    as much of a web process's.

    Before a fork it also keeps the pages shared. May be repeated.
    """
    gc.collect()
    gc.freeze()
    let_load()


def note_read(size: int) -> None:
    """A request of ``size`` bytes is over. Many bytes are followed by a collection.

    Django and its libraries leave each request to the collector. That counts objects that may refer to others, which a
    text is not: a megabyte of JSON could lie in ten of them, and a gigabyte be garbage before it looks.
    """
    global _read_bytes
    _read_bytes += size
    if _read_bytes >= MAX_READ_BYTES:
        _read_bytes = 0
        gc.collect()
