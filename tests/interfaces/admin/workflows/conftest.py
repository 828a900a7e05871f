"""A console that shows a run that has begun."""

import pytest

from tests.interfaces.admin.world import World


@pytest.fixture
def world() -> World:
    """A world with a run that has begun."""
    world = World()
    assert world.run.workflow_id == world.workflow.id
    return world
