"""A webhook that is delivered at once."""

import pytest

from jobs.handlers import registry


@pytest.fixture
def deliver(run_one, make_context):
    def deliver(url, *, runner=None, context=None, **payload):
        extra = {"runner": runner} if runner else {}
        return run_one(
            registry.get("webhook"), make_context(**(context or {})), {"url": url, **payload}, **extra
        )

    return deliver
