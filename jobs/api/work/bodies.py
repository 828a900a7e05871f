"""Reading what pull workers send: every fault by the path of its field, nothing done unless there is none."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from jobs.actions.fields import Fields
from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json
from jobs.engine.pull import Report
from jobs.handlers import outcome as outcomes
from jobs.handlers.context import MAX_CHECKPOINT_BYTES, MAX_STAGE_LENGTH
from jobs.handlers.outcome import Outcome, storable_text
from jobs.store.execution import Grip

LARGEST_FENCE = 2**31 - 1
MOST_TYPES = MOST_REPORTS = MOST_CAPACITY = 100
LONGEST_WAIT_SECONDS = 30
LONGEST_RETRY_SECONDS = 86_400
_OF_FAILURE = ("error", "permanent", "retry_after_seconds", "pause_job")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker asks for; ``job_types`` by the names its tenant gave them."""

    worker: str
    job_types: list[str]
    capacity: int
    wait_seconds: float


def claim(body: Mapping[str, Any]) -> Claim:
    """Raises ``InvalidInput``."""
    fields = Fields(body, known=("worker", "job_types", "capacity", "wait_seconds"))
    worker = fields.text("worker", 100)
    if not worker and "worker" not in fields.errors:
        fields.complain("worker", "Is required: a name of this worker, such as its host and process.")
    job_types = fields.get("job_types")
    if (
        not isinstance(job_types, list)
        or not 1 <= len(job_types) <= MOST_TYPES
        or not all(isinstance(name, str) for name in job_types)
    ):
        fields.complain("job_types", f"Must be a list of 1 to {MOST_TYPES} names of your pull types.")
    capacity = fields.number("capacity", 1, MOST_CAPACITY, default=1, whole=True)
    wait = fields.number("wait_seconds", 0, LONGEST_WAIT_SECONDS, default=0)
    fields.finish()
    return Claim(worker, job_types, capacity, wait)


def heartbeat(body: Mapping[str, Any]) -> list[Report]:
    """Raises ``InvalidInput``."""
    fields = Fields(body, known=("triggers",))
    given = fields.get("triggers")
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_REPORTS:
        fields.complain(
            "triggers", f"Must be a list of 1 to {MOST_REPORTS} objects with trigger_id and fence."
        )
        given = []
    reports = [
        fields.collect(partial(_report, item), under=f"triggers[{at}]") for at, item in enumerate(given)
    ]
    fields.finish()
    found = [report for report in reports if report is not None]
    if len({report.grip.id for report in found}) < len(found):
        raise InvalidInput({"triggers": "Names a trigger twice."})
    return found


def complete(body: Mapping[str, Any]) -> tuple[Grip, Outcome]:
    """Raises ``InvalidInput``."""
    fields = Fields(body, known=("trigger_id", "fence", "outcome", "result", *_OF_FAILURE))
    grip = _grip(fields)
    kind = fields.word("outcome", ("succeeded", "failed", "cancelled"))
    if kind is None and "outcome" not in fields.errors:
        fields.complain("outcome", "Is required: succeeded, failed or cancelled.")
    for name in _OF_FAILURE if kind in ("succeeded", "cancelled") else ():
        if fields.get(name) is not None:
            fields.complain(name, "Belongs to a failure; leave it out.")
    if fields.get("result") is not None:
        if kind != "succeeded":
            fields.complain("result", "Belongs to a success; leave it out.")
        fields.collect(
            lambda: check_json(fields.get("result"), field="result", max_bytes=outcomes.MAX_RESULT_BYTES)
        )
    failure = _failure(fields)
    if failure.pause_job and not failure.permanent:
        fields.complain("pause_job", "Goes with permanent: true only.")
    fields.finish()
    if kind == "succeeded":
        return grip, Outcome("succeeded", result=fields.get("result"))
    if kind == "cancelled":
        return grip, outcomes.cancelled(message="The worker stopped because its trigger was cancelled.")
    return grip, failure


def _report(item: object) -> Report:
    if not isinstance(item, dict):
        raise InvalidInput({"": "Must be an object with trigger_id and fence."})
    fields = Fields(item, known=("trigger_id", "fence", "progress", "checkpoint"))
    grip = _grip(fields)
    given, checkpoint = fields.get("progress"), fields.get("checkpoint")
    progress = None if given is None else fields.collect(lambda: _progress(given), under="progress")
    if checkpoint is not None and not isinstance(checkpoint, dict):
        fields.complain("checkpoint", "Must be an object; put the value under a name.")
    fields.collect(lambda: check_json(checkpoint, field="checkpoint", max_bytes=MAX_CHECKPOINT_BYTES))
    fields.finish()
    return Report(grip, progress, checkpoint)


def _progress(given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidInput({"": 'Must be an object such as {"fraction": 0.5, "stage": "rendering"}.'})
    fields = Fields(given, known=("fraction", "stage"))
    fraction = fields.number("fraction", 0, 1)
    if fraction is None and "fraction" not in fields.errors:
        fields.complain("fraction", "Is required: a number from 0 to 1.")
    stage = fields.text("stage", MAX_STAGE_LENGTH)
    fields.finish()
    return {"fraction": float(fraction), "stage": stage}


def _grip(fields: Fields) -> Grip:
    """The trigger and the fence; of one that is wrong, a stand-in, with the complaint noted."""
    fence = fields.number("fence", 0, LARGEST_FENCE, whole=True)
    if fence is None and "fence" not in fields.errors:
        fields.complain("fence", "Is required: the fence that the claim answered.")
    given = fields.get("trigger_id")
    try:
        return Grip(UUID(given), fence or 0)
    except (ValueError, AttributeError, TypeError):
        fields.complain("trigger_id", "Must be the trigger_id that the claim answered.")
        return Grip(UUID(int=0), fence or 0)


def _failure(fields: Fields) -> Outcome:
    error = fields.get("error")
    if error is not None and not isinstance(error, dict):
        fields.complain("error", 'Must be an object such as {"message": "…", "code": "printer_busy"}.')
    told = Fields(error if isinstance(error, dict) else {}, known=("message", "code", "kind", "traceback"))
    texts = {name: _text(told, name) for name in ("message", "code", "kind", "traceback")}
    for name, messages in told.errors.items():
        fields.errors[f"error.{name}"] = messages
    after = fields.number("retry_after_seconds", 0, LONGEST_RETRY_SECONDS)
    return Outcome(
        "failed",
        permanent=_flag(fields, "permanent"),
        pause_job=_flag(fields, "pause_job"),
        retry_after=None if after is None else timedelta(seconds=after),
        error_code=storable_text(texts["code"] or "worker_failed", max_bytes=64),
        error_class=storable_text(texts["kind"], max_bytes=200),
        error_message=storable_text(texts["message"], max_bytes=outcomes.MAX_MESSAGE_BYTES),
        traceback=storable_text(texts["traceback"], max_bytes=outcomes.MAX_TRACEBACK_BYTES, keep="tail"),
    )


def _text(fields: Fields, name: str) -> str:
    """Any text: what is too long is cut, as of a Python handler, and never costs the report."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        fields.complain(name, "Must be a text.")
    return value if isinstance(value, str) else ""


def _flag(fields: Fields, name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        fields.complain(name, "Must be true or false.")
    return value is True
