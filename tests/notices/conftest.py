"""The engine's fixtures, for a beat that is stepped by hand."""

from tests.engine.conftest import broker, make_beat

__all__ = ("broker", "make_beat")
