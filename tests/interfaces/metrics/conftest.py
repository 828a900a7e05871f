"""Figures that no other test has asked for."""

from collections.abc import Iterator

import pytest

from jobs.api import metrics


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(metrics, "broker_answers", lambda: True)
    metrics.kept.forget()
    yield
    metrics.kept.forget()
