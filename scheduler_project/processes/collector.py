"""Python's garbage collector, adapted to a long-lived process, which never throws its loaded objects away."""

import gc

#: After so many new objects the collector looks through the youngest generation. A batch, or a page of an answer, makes
#: many objects and keeps them until it ends. At Python's 700 the collector would look through them again and again for
#: nothing.
YOUNGEST = 10_000
#: After so many bytes of requests the collector looks through all objects: the objects made of these bytes are ten
#: times as large.
MAX_READ_BYTES = 4 * 1024 * 1024

_read_bytes = 0


def let_load() -> None:
    """Look for garbage less often from here on. Imports make no garbage; looking for it took a tenth of each start."""
    gc.set_threshold(YOUNGEST, *gc.get_threshold()[1:])


def spare() -> None:
    """From here on, exempt the objects that are loaded so far: looking through them took a sixth of a worker's Python,
    and as much of a web process's.

    Before a fork it also keeps the pages shared. May be repeated.
    """
    gc.collect()
    gc.freeze()
    let_load()


def note_read(size: int) -> None:
    """A request of ``size`` bytes is over. A collection follows many bytes.

    Django and its libraries leave each request to the collector. The collector counts only objects that may refer to
    others, and a text is not one of them. A megabyte of JSON could lie in ten such objects, and a gigabyte could be
    garbage before the collector looks.
    """
    global _read_bytes
    _read_bytes += size
    if _read_bytes >= MAX_READ_BYTES:
        _read_bytes = 0
        gc.collect()
