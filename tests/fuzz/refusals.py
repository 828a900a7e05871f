"""Requests that match the description of the API but are refused, with the reason why no schema can say so.

schemathesis loads this module (``SCHEMATHESIS_HOOKS``). Its own ``positive_data_acceptance`` knows whole operations
only. The check here takes its place: a 400 passes only if each field that it names has a row below.
"""

import json
import re
from itertools import count
from typing import Any
from uuid import uuid4

import schemathesis
from schemathesis.core.parameters import ParameterLocation

#: Besides success, a well-formed request may get these: it met a state that it did not know of.
STATE = {404, 409, 412, 422, 429}

_TIMES = (
    "JSON Schema cannot bound a date-time; Carillon stores 2000 to 2100, and nothing that lies in the past."
)
_PRINTABLE = "OpenAPI's regular expressions have no classes of Unicode: format characters, odd blanks, bidi."
_FREE_JSON = "Free JSON holds values that Postgres cannot: NUL, 1e300."
_KINDS = "It depends on the type or the back-off that the job has already."

#: (operations by their id, fields, why).
BEYOND_A_SCHEMA = [
    (r".*", r"cursor", "A cursor is the server's own text: take it from a page."),
    (r".*", r"(filter\.)?(scheduled_for|created|updated|started|finished)_(after|before)", _TIMES),
    (r"jobs_list", r"ordering", "With name_prefix it is by name; parameters cannot depend on each other."),
    (
        r"attempts_list",
        r"state",
        "Without a job only failures are listed; parameters cannot depend on each other.",
    ),
    (r"dead_letters_dismiss", r"note", _PRINTABLE),
    (r"secrets_put", r"hosts", "A secret that is new must have them; one that exists keeps its own."),
    (
        r"jobs_(create|bulk|update|put_by_name)",
        r"timeout_seconds",
        "Each job type has a ceiling of its own; webhooks have one of five minutes.",
    ),
    (r"(jobs|workflows)_pause", r"until", _TIMES),
    (r"(jobs|workflows)_pause", r"reason", _PRINTABLE),
    (
        r"(jobs|workflows)_backfill",
        r"start|end",
        _TIMES + " The stretch must be in order and hold a firing of the job.",
    ),
    (
        r"jobs_(create|bulk|update|put_by_name)",
        r"job_type",
        "Which types there are is not of the description.",
    ),
    (
        r"jobs_(create|bulk|update|put_by_name|run)",
        r"payload\b.*",
        "Each job type has a schema of its own (GET /job-types). " + _FREE_JSON,
    ),
    (
        r"jobs_(create|bulk|update|put_by_name)",
        r"name",
        _PRINTABLE + " A recurring job must have one; a PUT's must be that of the path.",
    ),
    (r"jobs_(create|bulk|update|put_by_name)", r"concurrency_key", _PRINTABLE),
    (
        r"operations_create",
        r"changes\.(job_type|payload\b.*|concurrency_key|labels\b.*|notify\.(url|email)|schedule\..*"
        r"|retry_policy\..*)",
        "As of an edit of one job.",
    ),
    (r"worker_claim", r"worker", _PRINTABLE),
    (r"worker_heartbeat", r"triggers\[\d+\]\.progress\.stage", _PRINTABLE),
    (r"worker_heartbeat", r"triggers\[\d+\]\.output", "A text of JSON holds NUL, and Postgres' none."),
    (
        r"workflows_(create|replace)",
        r"tasks[.\[].*",
        "OpenAPI 3.0 has no propertyNames: keys of tasks are words. A task has one of three kinds.",
    ),
    (r"workflows_(create|replace)", r"name", _PRINTABLE),
    (
        r"workflows_(create|replace|run)|workflow_runs_signal",
        r"(input|payload)\b.*",
        _FREE_JSON,
    ),
    (r"workflow_runs_(approve|refuse)", r"comment", _PRINTABLE),
    (r"job_types_declare", r"description", _PRINTABLE),
    (
        r"(jobs|schedules|workflows)_.*",
        r"schedule\.cron",
        "Whether a text is cron, and whether it ever fires.",
    ),
    (
        r"(jobs|schedules|workflows)_.*",
        r"schedule\.timezone",
        "Which zones there are is not of the description.",
    ),
    (r"(jobs|schedules|workflows)_.*", r"(schedule\.(run_at|starts_at|ends_at)|after)", _TIMES),
    (r"(jobs|schedules|workflows)_.*", r"schedule\.jitter_seconds", "It must be shorter than every_seconds."),
    (
        r"jobs_(create|bulk|update|put_by_name)",
        r"retry_policy\.max_delay_seconds",
        "It must not be shorter than initial_delay_seconds.",
    ),
    (r"jobs_update", r"(schedule|retry_policy)\..*", _KINDS),
    (
        r"jobs_(create|bulk|update|put_by_name)|workflows_(create|replace)",
        r"labels\b.*",
        "OpenAPI 3.0 has no propertyNames: keys are words as values are.",
    ),
    (
        r"jobs_(create|bulk|update|put_by_name)|tenant_notify|workflows_(create|replace)",
        r"(notify\.)?(url|email)",
        "Whether this installation sends e-mail; and what is a URL is said by no format that readers agree on.",
    ),
    (r"jobs_put_by_name", r"schedule\.type", "A job that exists cannot become immediate."),
    (
        r"jobs_put_by_name",
        r"If-None-Match",
        "It contradicts If-Match, and headers cannot exclude each other.",
    ),
    (
        r"job_types_declare",
        r"payload_schema\b.*",
        "Whether an object is a JSON Schema, and one that is bounded.",
    ),
    (r"worker_claim", r"job_types", "Which types the tenant has declared is not of the description."),
    (r"worker_heartbeat", r"triggers", "A trigger may be named once; uniqueItems looks at whole objects."),
    (
        r"worker_(heartbeat|complete)",
        r"(triggers\[\d+\]\.checkpoint|result)\b.*",
        _FREE_JSON,
    ),
    (r"installation_(tenants|keys)_(create|change)", r"name", _PRINTABLE),
    (r"installation_.*", r"reason", _PRINTABLE),
    (
        r"installation_tenants_change",
        r"body",
        "OpenAPI 3.0 can ask for one field of many only by minProperties.",
    ),
    (
        r"installation_tenants_(create|change)",
        r"rate_burst",
        "It goes with rate_per_second, which the tenant may have already; OpenAPI 3.0 has no dependentRequired.",
    ),
    (r"installation_keys_create", r"expires_at", _TIMES),
    (r"worker_complete", r"pause_job", "It goes with permanent: true; OpenAPI 3.0 has no dependentSchemas."),
]


_turns = count()
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send a matching request under a key of its own, to avoid the 422 of another call; and hardly wait for work.

    Schemathesis infers ids from answers, and some are no ids ("bulk", out of /jobs/bulk). These are made ids again.
    """
    fits = case.meta is not None and case.meta.generation.mode.is_positive
    if fits and "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = f"fuzz-{next(_turns)}"
    for name, value in (case.path_parameters or {}).items():
        if name.endswith("_id") and (value == "bulk" or (fits and not _UUID.fullmatch(str(value)))):
            case.path_parameters[name] = str(uuid4())
    waits = case.operation.path.endswith("/worker/claim") and isinstance(case.body, dict)
    if waits and isinstance(case.body.get("wait_seconds"), int | float):
        case.body["wait_seconds"] = min(case.body["wait_seconds"], 0.1)


def reason(operation: str, field: str) -> str | None:
    """Why the operation may refuse the field of a request that matches the description; None: it may not."""
    field = re.sub(r"^jobs\[\d+\]\.", "", field)
    for operations, fields, why in BEYOND_A_SCHEMA:
        if re.fullmatch(operations, operation) and re.fullmatch(fields, field, re.DOTALL):
            return why
    return None


@schemathesis.check
def refuses_the_items_of_a_bulk(ctx: Any, response: Any, case: Any) -> None:
    """A bulk's answer is 200 for any items. It creates none of the items that break the description."""
    if case.operation.definition.raw["operationId"] != "jobs_bulk" or response.status_code != 200:
        return
    broken = case.meta is not None and case.meta.components.get(ParameterLocation.BODY)
    if broken and broken.mode.is_negative and not json.loads(response.content)["refused"]:
        raise AssertionError("jobs_bulk created all that it was sent, though not all of it fits")


@schemathesis.check
def accepts_what_is_described(ctx: Any, response: Any, case: Any) -> None:
    """A request that matches the description is done, or meets a state, or is refused for a listed reason."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code < 400 or response.status_code in STATE or response.status_code in (401, 403):
        return
    operation = case.operation.definition.raw["operationId"]
    faults = json.loads(response.content).get("errors", [])
    # The answer names the first faults, and says that there are more.
    faults = [fault for fault in faults if not fault["message"].startswith("There are more errors")]
    unexplained = [fault for fault in faults if reason(operation, fault["field"]) is None]
    if unexplained or not faults:
        raise AssertionError(f"{operation} refused with {response.status_code} what fits: {unexplained}")
