"""Python's garbage collector, told what a long-lived process never throws away."""

import gc

#: Objects made before the youngest generation is looked through. A batch, or a page of an answer, makes many and keeps
#: them until it ends, so that Python's 700 would have them looked through again and again for nothing.
YOUNGEST = 10_000


def spare() -> None:
    """Leave alone from here on what has been loaded so far: looking through it was a sixth of a worker's Python, and
    as much of a web process's.

    Before a fork it also keeps the pages shared. May be repeated.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNGEST, *gc.get_threshold()[1:])
