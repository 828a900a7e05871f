"""Edits that have the time they need."""

import pytest

from jobs.actions.bulk import edits


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must do as much in a slice as a fast one."""
    monkeypatch.setattr(edits, "MAX_JUDGING_SECONDS", 60.0)
