"""Every query of the store with parameters such as the engine gives it, in a module for each area of the store.

A new query has its entry in the module that holds the others of its SQL file. Without it, ``tests/store/test_plans.py``
fails.
"""

from types import ModuleType

from tests.store.plans.parameters import (
    attempts,
    catchup,
    counts,
    dispatch,
    events,
    jobs,
    lists,
    targets,
    upkeep,
    workflows,
)
from tests.store.plans.parameters.sample import Parameters


def gathered(*areas: ModuleType) -> Parameters:
    """The entries of all areas. A query that two areas name is refused."""
    found: Parameters = {}
    for area in areas:
        if twice := found.keys() & area.PARAMETERS.keys():
            raise ValueError(f"Told twice, the second time in {area.__name__}: {sorted(twice)}")
        found |= area.PARAMETERS
    return found


PARAMETERS = gathered(attempts, catchup, counts, dispatch, events, jobs, lists, targets, upkeep, workflows)
