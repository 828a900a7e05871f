"""Every error Carillon raises on purpose: one small tree.

Messages say what was wrong, where, and what would be right, because they are shown to the person who can mend it:
the API renders them as problem+json, the admin as form errors, commands on stderr. Anything outside this tree that
reaches an entry point is a defect.

Messages about refused input are bounded wherever they are raised. So a megabyte of nonsense gets some kilobytes of
answer, which is enough to mend it. The answer says so when messages are left out.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
MAX_FIELDS = 20
MAX_BYTES = 16_384
_MAX_FIELD_LENGTH = 300
_MAX_NAME_LENGTH = 40
#: The limit of one message: all names of a tenant's job types fit.
_MAX_MESSAGE_LENGTH = 6_000
_MORE = f"There are more errors than these {MAX_FIELDS} fields or {MAX_BYTES:,} bytes. Correct these first."

#: Messages for pydantic's findings, by pydantic's name of each.
_WORDS = {
    "missing": "Is required.",
    "string_type": "Must be a text.",
    "bool_type": "Must be true or false.",
    "bool_parsing": "Must be true or false.",
    "list_type": "Must be a list.",
    "dict_type": "Must be an object.",
    "model_type": "Must be an object.",
    "model_attributes_type": "Must be an object.",
}
#: A finding that follows from another finding.
_NO_FAULT = "default_factory_not_called"
#: The end of a path whose fault is the name itself.
_OF_A_KEY = ("[key]",)


class CarillonError(Exception):
    """Base of everything below."""


class InvalidInput(CarillonError, ValueError):
    """Input that can never be accepted. Nothing was changed.

    A ``ValueError``, so that validators of pydantic models may raise it.

    ``errors`` maps a field path in the caller's own words (``"schedule.cron"``, ``"payload.headers"``) to one or more
    sentences, each saying what was wrong and what would be right. If there are very many, few are kept (``bounded``).
    """

    def __init__(self, errors: Mapping[str, str | Sequence[str]]) -> None:
        self.errors = bounded(errors)
        super().__init__(
            "; ".join(f"{field}: {' '.join(messages)}" for field, messages in self.errors.items())
        )

    def under(self, prefix: str) -> "InvalidInput":
        """The same error with every field path moved below ``prefix``."""
        return InvalidInput(
            {
                f"{prefix}{'' if field.startswith('[') or not field else '.'}{field}": messages
                for field, messages in self.errors.items()
            }
        )


class Complaints:
    """Gathers all faults, so that a caller who made four mistakes learns of four."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}

    def complain(self, name: str, message: str) -> None:
        """Note ``message`` about the field ``name``."""
        self.found.setdefault(name, []).append(message)

    def collect(self, read: Callable[[], T], *, under: str = "") -> T | None:
        """The result of ``read``, or None with its ``InvalidInput`` noted below the path ``under``."""
        try:
            return read()
        except InvalidInput as error:
            for name, messages in (error.under(under) if under else error).errors.items():
                self.found.setdefault(name, []).extend(messages)
            return None

    def finish(self) -> None:
        """Raise ``InvalidInput`` with every complaint, if there is one."""
        if self.found:
            raise InvalidInput(self.found)


class NotFound(CarillonError):
    """No such object, or not one of this tenant's: the two are never told apart (DESIGN §2.10)."""


class Conflict(CarillonError):
    """The request is well-formed but contradicts the present state. Nothing was changed."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


class QuotaExceeded(CarillonError):
    """A tenant's limit is reached. Carries the quota's name, its limit and the present use."""

    def __init__(self, quota: str, *, limit: int, used: int) -> None:
        self.quota, self.limit, self.used = quota, limit, used
        super().__init__(f"The quota {quota} is {limit} and {used} are in use; delete some or ask for more.")


class Unavailable(CarillonError):
    """A server that Carillon needs (Postgres, the broker) did not answer. Worth trying again."""


class Crowded(CarillonError):
    """No more requests may wait in this process: come again a little later. ``own``: some are this tenant's."""

    def __init__(self, *, own: bool) -> None:
        self.own = own
        super().__init__(
            "You have too many requests waiting here (claims and event streams): close one, or try again."
            if own
            else "Too many requests are waiting at this server; try again, or do not wait."
        )


class ScheduleError(CarillonError):
    """A stored schedule that can no longer be computed (for example, a zone that left the database)."""


def unknown(
    given: Iterable[object],
    *,
    known: Collection[str],
    what: str = "field",
    hints: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A complaint about each name that is not ``known``. The known names are listed once. Few complaints are made.

    ``hints``: for some unknown names, what to do instead.
    """
    found: dict[str, str] = {}
    told = f"Unknown {what}; " + (f"the {what}s are {', '.join(known)}." if known else "there are none here.")
    for name in given:
        if name in known:
            continue
        hint = (hints or {}).get(str(name))
        found[str(name)[:_MAX_NAME_LENGTH]] = hint or told
        if not hint:
            told = f"Unknown {what}."
        if len(found) > MAX_FIELDS:
            break
    return found


def bounded(errors: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
    """The first ``MAX_FIELDS`` fields with their messages, in at most ``MAX_BYTES``; says when there are more."""
    kept: dict[str, list[str]] = {}
    left = MAX_BYTES
    for field, given in errors.items():
        for message in [given] if isinstance(given, str) else given:
            if message == _MORE:
                continue  # it was bounded before, under another name
            told = message if len(message) <= _MAX_MESSAGE_LENGTH else f"{message[:_MAX_MESSAGE_LENGTH]}…"
            left -= len(json.dumps((field[:_MAX_FIELD_LENGTH], told)))
            if left < 0 or (field[:_MAX_FIELD_LENGTH] not in kept and len(kept) == MAX_FIELDS):
                return kept | {"": [*kept.get("", []), _MORE]}
            kept.setdefault(field[:_MAX_FIELD_LENGTH], []).append(told)
    if any(_MORE in given for given in errors.values() if not isinstance(given, str)):
        kept.setdefault("", []).append(_MORE)
    return kept


def refusal(
    findings: Iterable[Mapping[str, Any]],
    *,
    known: Collection[str],
    hints: Mapping[str, str] | None = None,
    tagged: bool = False,
) -> InvalidInput:
    """A reader's ``findings`` (pydantic's ``ValidationError.errors()``) in our words, by the path of each field.

    This is the one home of that translation. It never repeats the value that was sent, because payloads hold secrets.

    ``known``: the fields of the object that was read. ``hints``: what to do about some fields that are not known, or
    are missing; under the empty name, what to do about a value that is no such object. ``tagged``: each path begins
    with the name of the variant that was read, which is no part of the path.
    """
    errors: dict[str, list[str]] = {}
    strange = []
    for finding in findings:
        place, kind = finding["loc"][tagged:], finding["type"]
        if kind == "extra_forbidden" and len(place) == 1:
            strange.append(place[0])
        elif kind != _NO_FAULT:
            if place[-1:] == _OF_A_KEY and kind != "extra_forbidden":
                place = place[:-1]
            for path, messages in _told(finding, _path(place), hints or {}).items():
                errors.setdefault(path, []).extend(messages)
    for name, message in unknown(strange, known=known, hints=hints).items():
        errors.setdefault(name, []).append(message)
    return InvalidInput(errors)


def _told(finding: Mapping[str, Any], path: str, hints: Mapping[str, str]) -> dict[str, list[str]]:
    kind, context = finding["type"], finding.get("ctx", {})
    if kind == "value_error":
        error = context["error"]
        if isinstance(error, InvalidInput):
            return (error.under(path) if path else error).errors
        return {path: [str(error)]}
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        field = str(context["discriminator"]).strip("'")
        words = _listed(context.get("expected_tags", ""))
        told = f"Must be one of {words}." if words else hints.get(field, "Is required.")
        return {f"{path}.{field}".removeprefix("."): [told]}
    if kind in ("enum", "literal_error"):
        return {path: [f"Must be one of {_listed(context['expected'])}."]}
    if kind in ("too_short", "too_long"):
        most = context.get("max_length")
        return {
            path: [
                f"Must have at least {context['min_length']:,}."
                if most is None
                else f"Must have at most {most:,}."
            ]
        }
    if path in hints and kind in ("missing", "model_type", "model_attributes_type"):
        return {path: [hints[path]]}
    return {path: [_WORDS.get(kind) or finding["msg"]]}


def _listed(expected: str) -> str:
    """``'a', 'b' or 'c'`` as ``a, b, c``."""
    return expected.replace("'", "").replace(" or ", ", ")


def _path(place: Iterable[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")
