"""Told to spare what is loaded, the collector does, and goes on with the rest."""

import gc
import weakref

from scheduler_project.processes import collector


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_loaded_is_spared_and_what_comes_later_is_not() -> None:
    before = gc.get_threshold()
    try:
        collector.spare()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == (collector.YOUNGEST, *before[1:])
        later = weakref.ref(Knot())
        gc.collect()
        assert later() is None
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
