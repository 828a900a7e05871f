"""A reason for concern: how bad, in one sentence, with the page that helps and the playbook."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """The worst comes first."""

    RED = 0
    AMBER = 1
    GREEN = 2


class Page(StrEnum):
    """Where to look. The code that shows a reason knows the addresses."""

    LEASES = "leases"
    INSTALLATION = "installation"
    DISPATCH = "dispatch"
    WORKERS = "workers"
    TYPE = "type"
    TARGETS = "targets"
    BREAKERS = "breakers"
    TENANT = "tenant"
    TRIGGERS = "triggers"
    SKIPPED = "skipped"
    LOST = "lost"


class Playbook(StrEnum):
    """Files of ``docs/playbooks``."""

    NOT_RUNNING = "jobs-are-not-running"
    TWICE = "jobs-run-twice"
    FLOOD = "a-tenant-floods"
    TARGET = "a-target-is-down"
    POSTGRES = "postgres-is-full-or-slow"
    BROKER = "the-broker-is-gone"
    CLOCKS = "clocks-disagree"
    DEPLOY = "a-bad-deploy"


@dataclass(frozen=True, slots=True)
class Reason:
    """``text`` begins in lower case unless it begins with a name. It has names in backticks, and no full stop.

    ``about``: which row of the page: a job type's name, a tenant's id.
    """

    level: Level
    text: str
    page: Page
    playbook: Playbook
    about: str = ""
