"""What the payload models of the built-in types have in common: strictness, and the names of queues."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
#: Queues of Carillon itself, and names that Celery and kombu use inside the broker: a message put there would
#: be taken for theirs (a remote-control command, for one).
_RESERVED_PREFIXES = ("jobs.", "_kombu", "unacked", "celeryev", "celery-task-meta")


class BuiltInPayload(BaseModel):
    """No unknown fields, no guessed conversions ("5" is not 5), nothing to change afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_queue(name: str) -> str:
    if not _QUEUE.fullmatch(name):
        raise ValueError(
            "A queue's name is 1 to 200 of the characters A-Z a-z 0-9 _ . : - and begins with none of .:-"
        )
    if name.startswith(_RESERVED_PREFIXES) or "pidbox" in name:
        raise ValueError(
            "Queues named jobs.* and those of the broker's own bookkeeping are not for payloads."
        )
    return name


QueueName = Annotated[str, AfterValidator(_check_queue)]
