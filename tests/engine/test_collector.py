"""The garbage collector spares loaded objects when told to, and starts when told that many bytes were read."""

import gc
import weakref

from scheduler_project.processes import collector


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_loaded_is_spared_and_what_comes_later_is_not() -> None:
    before = gc.get_threshold()
    gc.unfreeze()  # the tests' own objects are spared, too
    gc.set_threshold(700, *before[1:])
    try:
        collector.spare()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == (collector.YOUNGEST, *before[1:])
        later = weakref.ref(Knot())
        gc.collect()
        assert later() is None
    finally:
        gc.set_threshold(*before)


def test_it_starts_when_requests_of_many_bytes_are_over() -> None:
    gc.disable()  # few objects: nothing else would start a collection
    try:
        collector.note_read(collector.MAX_READ_BYTES)
        later = weakref.ref(Knot())
        collector.note_read(collector.MAX_READ_BYTES - 1)
        assert later() is not None
        collector.note_read(1)
        assert later() is None
    finally:
        gc.enable()
