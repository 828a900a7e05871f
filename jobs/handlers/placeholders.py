"""``{{secret:name}}`` in what a job sends: found when the job is created, filled in when it is sent, hidden ever after.

A value exists in the worker's memory alone, between the look-up and the end of the attempt. Whatever the attempt
leaves behind (messages, tracebacks, excerpts of an answer that echoes the request, results) passes through ``hide``
before it is logged or stored.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus

from jobs.handlers.outcome import Outcome

_PLACEHOLDER = re.compile(r"\{\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\}\}")
_MEANT = re.compile(r"\{\{?\s*secret\b", re.IGNORECASE)
#: A text at least this long may have been cut in the middle of a value, of which pieces shorter than that may stay.
_CUT_BYTES, _SHORTEST_PIECE = 1900, 4


def names_in(text: str) -> list[str]:
    """The names of the secrets that ``text`` refers to."""
    return _PLACEHOLDER.findall(text) if "{{" in text else []


def check_placeholders(text: str) -> str:
    """``text``, unless something in it was meant for a placeholder and is none: raises ``ValueError``."""
    if "{" in text and _MEANT.search(_PLACEHOLDER.sub("", text)):
        raise ValueError(
            "A placeholder reads {{secret:name}}, without blanks, with the name of one of your secrets."
        )
    return text


def fill(text: str, value_of: Callable[[str], str]) -> str:
    """``text`` with every placeholder replaced by ``value_of`` its name."""
    return _PLACEHOLDER.sub(lambda found: value_of(found[1]), text) if "{{" in text else text


def hide(outcome: Outcome, values: Mapping[str, str]) -> Outcome:
    """``outcome`` with ``{{secret:name}}`` in place of every value, in whatever form an answer may echo it."""
    forms = sorted(
        {(form, f"{{{{secret:{name}}}}}") for name, value in values.items() for form in _forms(value)},
        key=lambda pair: -len(pair[0]),
    )
    return replace(
        outcome,
        error_message=_hidden(outcome.error_message, forms),
        traceback=_hidden(outcome.traceback, forms),
        response_excerpt=_hidden(outcome.response_excerpt, forms),
        result=_hidden_deep(outcome.result, forms),
    )


def _forms(value: str) -> Iterator[str]:
    yield from (value, json.dumps(value)[1:-1], repr(value)[1:-1], html.escape(value))
    yield from (
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        quote(value, safe="!$&'()*+,/:;=@-._~"),
    )
    for encoded in (base64.b64encode(value.encode()), base64.urlsafe_b64encode(value.encode())):
        yield encoded.decode().rstrip("=")


def _hidden(text: str, forms: list[tuple[str, str]]) -> str:
    for form, name in forms:
        text = text.replace(form, name)
    for form, name in forms if len(text.encode()) >= _CUT_BYTES else ():
        for length in range(min(len(form) - 1, len(text)), _SHORTEST_PIECE - 1, -1):
            if text.endswith(form[:length]):
                text = text[:-length] + name
            if text.startswith(form[-length:]):
                text = name + text[length:]
    return text


def _hidden_deep(value: Any, forms: list[tuple[str, str]]) -> Any:
    match value:
        case str():
            return _hidden(value, forms)
        case list():
            return [_hidden_deep(item, forms) for item in value]
        case dict():
            return {_hidden(str(key), forms): _hidden_deep(item, forms) for key, item in value.items()}
    return value
