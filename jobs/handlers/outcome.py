"""How one handler call ended: an ``Outcome``, and the exceptions by which a handler chooses it.

Keeps true: an ``Outcome`` can always be stored. Its texts are bounded and free of the characters that Postgres refuses
in ``text`` (NUL, lone surrogates), and its result has passed the JSON rules. The functions here are pure and
never raise: a value or an exception that cannot be described becomes an outcome that says so.

Failure classes follow DESIGN §7: ``Permanent`` is buried at once, all others are retried by the job's policy.
"""

import re
import traceback as traceback_module
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json
from jobs.core.workflows.flow import Unresolved
from jobs.telemetry.output import Said

JsonValue = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_RESULT_BYTES = 65_536
MAX_MESSAGE_BYTES = 2_000
MAX_TRACEBACK_BYTES = 8_192
MAX_EXCERPT_BYTES = 2_048

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class HandlerError(Exception):
    """A failure that its handler foresaw: retried by the job's policy.

    ``code`` is a short snake_case word for filters and metrics. ``http_status`` and ``response_excerpt`` are
    kept in the attempt when a remote side answered.
    """

    default_code = "handler_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        http_status: int | None = None,
        response_excerpt: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.http_status = http_status
        self.response_excerpt = str(response_excerpt)


class Permanent(HandlerError):
    """Trying again cannot help: the trigger is buried now. ``pause_job`` also pauses its job (HTTP 410)."""

    default_code = "permanent"

    def __init__(self, message: str, *, pause_job: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.pause_job = pause_job


class RetryAfter(HandlerError):
    """Try again no sooner than ``delay`` (a timedelta or seconds) from now, within the job's policy."""

    default_code = "retry_after"

    def __init__(self, delay: timedelta | float, message: str = "", **details: Any) -> None:
        self.delay = max(timedelta(), delay if isinstance(delay, timedelta) else timedelta(seconds=delay))
        super().__init__(
            message or f"The handler asked for a retry in {self.delay.total_seconds():g} s.", **details
        )


class BadReport(InvalidInput):
    """``Context.checkpoint`` and ``progress`` raise it for a value they cannot keep; uncaught, it fails the attempt."""

    def __init__(self, problem: InvalidInput, *, code: str) -> None:
        super().__init__(problem.errors)
        self.code = code


class Cancelled(BaseException):
    """Raised by ``Context.raise_if_cancelled``. Not an ``Exception``: a broad ``except`` must not swallow it."""


@dataclass(frozen=True, slots=True)
class Response:
    """A handler returns it so that the attempt keeps a remote answer beside the handler's result."""

    result: JsonValue = None
    http_status: int | None = None
    response_excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended. ``permanent`` and ``retry_after`` matter for failures only; ``said``: its output.

    An outcome that is no success has an ``error_code``, by which it is indexed. If none was given, it is the ``kind``.
    """

    kind: Literal["succeeded", "failed", "timed_out", "cancelled"]
    permanent: bool = False
    result: JsonValue = None
    error_code: str = ""
    error_class: str = ""
    error_message: str = ""
    traceback: str = ""
    http_status: int | None = None
    response_excerpt: str = ""
    retry_after: timedelta | None = None
    pause_job: bool = False
    said: Said | None = None

    def __post_init__(self) -> None:
        if self.kind != "succeeded" and not self.error_code:
            object.__setattr__(self, "error_code", self.kind)


_SUCCEEDED = Outcome("succeeded")


def storable_text(text: str, *, max_bytes: int, keep: Literal["head", "tail"] = "head") -> str:
    """``text`` cut to ``max_bytes`` of UTF-8, with U+FFFD for each character Postgres cannot store."""
    encoded = _UNSTORABLE.sub("\ufffd", text).encode()
    if len(encoded) <= max_bytes:
        return encoded.decode()
    cut = encoded[:max_bytes] if keep == "head" else encoded[-max_bytes:]
    return cut.decode(errors="ignore")


def outcome_of_return(value: object) -> Outcome:
    """The outcome of a handler that returned ``value``: its result, a ``Response``, or None.

    A value that is not JSON (or holds NUL, NaN, an integer past 2^53, or more than 64 KiB) is a failure
    ``bad_result``. The work may well be done, but its result cannot be kept, and saying "succeeded" would hide that.
    """
    if value is None:
        return _SUCCEEDED
    response = value if isinstance(value, Response) else Response(value)  # type: ignore[arg-type]
    excerpt = storable_text(response.response_excerpt, max_bytes=MAX_EXCERPT_BYTES)
    try:
        if response.result is not None:
            check_json(response.result, field="result", max_bytes=MAX_RESULT_BYTES)
    except InvalidInput as problem:
        return _failed(
            code="bad_result",
            error_class="InvalidInput",
            message=f"The handler's return value cannot be stored as JSON: {problem}",
            http_status=response.http_status,
            response_excerpt=excerpt,
        )
    return Outcome(
        "succeeded", result=response.result, http_status=response.http_status, response_excerpt=excerpt
    )


def rebounded(outcome: Outcome) -> Outcome:
    """``outcome`` within its bounds again, after its texts were changed; a result that outgrew its bound fails."""
    try:
        if outcome.result is not None:
            check_json(outcome.result, field="result", max_bytes=MAX_RESULT_BYTES)
    except InvalidInput as problem:
        return _failed(
            code="bad_result",
            error_class="InvalidInput",
            message=f"With the names of secrets in place of their values the result cannot be stored: {problem}",
            http_status=outcome.http_status,
            response_excerpt=outcome.response_excerpt,
            said=outcome.said,
        )
    return replace(
        outcome,
        error_message=storable_text(outcome.error_message, max_bytes=MAX_MESSAGE_BYTES),
        traceback=storable_text(outcome.traceback, max_bytes=MAX_TRACEBACK_BYTES, keep="tail"),
        response_excerpt=storable_text(outcome.response_excerpt, max_bytes=MAX_EXCERPT_BYTES),
    )


def unwritable(error: Exception) -> Outcome:
    """The substitute for an outcome that the database refused with ``error``. It quotes only the error's first line."""
    reason = next(iter(_words_of(error).splitlines()), class_name(error))
    return _failed(
        code="unwritable_outcome",
        error_class=class_name(error),
        message=f"The handler ended, but its outcome could not be written: {reason}",
    )


def left_open(outcome: Outcome) -> Outcome:
    """The outcome of a handler whose open transaction was rolled back. A bad outcome stays bad, and says so too."""
    if outcome.kind == "succeeded":
        return _failed(
            code="open_transaction",
            error_class="OpenTransaction",
            message=(
                "The handler returned and left a transaction open on Carillon's database connection. It was rolled "
                "back: nothing that the handler wrote in it is kept. End each transaction before returning: use "
                "'with transaction.atomic():', or commit after BEGIN and after set_autocommit(False)."
            ),
        )
    also = "The handler also left a transaction open, which was rolled back."
    return rebounded(replace(outcome, error_message=f"{also} {outcome.error_message}"))


def outcome_of_exception(error: BaseException) -> Outcome:
    """The outcome of a handler that raised ``error``.

    A ``HandlerError`` explains itself, so its traceback is kept only when it was raised from another error.
    """
    if isinstance(error, Cancelled):
        return cancelled(message="The handler stopped because its trigger was cancelled.")
    if not isinstance(error, HandlerError):
        code = "system_exit" if isinstance(error, SystemExit) else "exception"
        if isinstance(error, BadReport):
            code = error.code
        return _failed(
            code=code, error_class=class_name(error), message=_words_of(error), traceback=_trace_of(error)
        )
    return _failed(
        code=str(error.code),
        error_class=class_name(error),
        message=_words_of(error),
        traceback=_trace_of(error) if error.__cause__ else "",
        http_status=error.http_status,
        response_excerpt=error.response_excerpt,
        permanent=isinstance(error, Permanent),
        pause_job=isinstance(error, Permanent) and error.pause_job,
        retry_after=error.delay if isinstance(error, RetryAfter) else None,
    )


def invalid_payload(problem: InvalidInput) -> Outcome:
    """A stored payload that the handler's model now refuses: no retry can mend it."""
    return _failed(
        code="invalid_payload", error_class="InvalidInput", message=_words_of(problem), permanent=True
    )


def unresolved(payload: Unresolved) -> Outcome:
    """A task whose payload takes a value that does not exist, or must not be taken over. Its handler is not called."""
    return invalid_payload(InvalidInput({"payload": payload.why}))


def switched_off(job_type: str) -> Outcome:
    """A firing of a type that an operator switched off: its handler is not called."""
    return _failed(
        code="type_switched_off",
        error_class="TypeSwitchedOff",
        message=f"Jobs of type {job_type} are switched off here; once they are not, replay this firing.",
        permanent=True,
    )


def timed_out(*, limit: timedelta, error: BaseException | None = None) -> Outcome:
    """The handler did not end within ``limit``; ``error``'s traceback shows where it was."""
    return Outcome(
        "timed_out",
        error_code="timeout",
        error_class="TimeoutError",
        error_message=f"The handler did not finish within {limit.total_seconds():g} s.",
        traceback=_trace_of(error) if error else "",
    )


def cancelled(*, message: str) -> Outcome:
    """The handler was stopped because its trigger was cancelled."""
    return Outcome("cancelled", error_code="cancelled", error_class="Cancelled", error_message=message)


def class_name(error: BaseException) -> str:
    """``module.Class`` of an exception, without the module for built-in ones."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _failed(
    *, code: str, error_class: str, message: str, traceback: str = "", response_excerpt: str = "", **rest: Any
) -> Outcome:
    return Outcome(
        "failed",
        error_code=storable_text(code, max_bytes=64),
        error_class=storable_text(error_class, max_bytes=200),
        error_message=storable_text(message, max_bytes=MAX_MESSAGE_BYTES),
        traceback=traceback,
        response_excerpt=storable_text(response_excerpt, max_bytes=MAX_EXCERPT_BYTES),
        **rest,
    )


def _words_of(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"The handler called exit({error.code!r:.200}); return a value or raise instead."
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - a broken __str__ of foreign code must not cost the outcome
        return f"({class_name(error)}, whose own text failed with {class_name(second)})"


def _trace_of(error: BaseException) -> str:
    try:
        text = "".join(traceback_module.format_exception(error))
    except Exception as second:  # noqa: BLE001 - as above: formatting calls the foreign __str__ too
        text = f"(the traceback could not be formatted: {class_name(second)})"
    return storable_text(text, max_bytes=MAX_TRACEBACK_BYTES, keep="tail")
