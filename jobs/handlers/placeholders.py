"""``{{secret:name}}`` in a job's request: found when the job is created, filled in when it is sent, hidden ever after.

A value exists in the worker's memory alone, between the look-up and the end of the attempt. Everything that the attempt
leaves behind (messages, tracebacks, excerpts of an answer that echoes the request, results) passes through ``hide``
before it is logged or stored.
"""

import base64
import html
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from yarl import URL

from jobs.handlers.outcome import Outcome, rebounded
from jobs.telemetry.output import Said, cleaned

_PLACEHOLDER = re.compile(r"\{\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\}\}")
#: A target names an IPv6 address without brackets.
_NO_BRACKETS = str.maketrans("", "", "[]")
_MEANT = re.compile(r"\{\{?\s*secret\b", re.IGNORECASE)
#: A text of at least ``_CUT_BYTES`` may have been cut in the middle of a value. Pieces of the value that are shorter
#: than ``_MIN_PIECE`` may stay.
_CUT_BYTES, _MIN_PIECE = 1900, 4
#: Anywhere else so many characters of a form count as a piece of it. A shorter form is hidden only as a whole.
PIECE = 10
_MIN_FORM = 6
#: Secrets that one payload may refer to. Hiding them takes memory and time for each.
MAX_NAMES = 16
_ESCAPE = re.compile("%[0-9A-F]{2}")
_URLSAFE, _STANDARD = str.maketrans("+/", "-_"), str.maketrans("-_", "+/")


def names_in(text: str) -> list[str]:
    """The names of the secrets that ``text`` refers to."""
    return _PLACEHOLDER.findall(text) if "{{" in text else []


def check_placeholders(text: str) -> str:
    """``text`` itself. Raises ``ValueError`` if a part of it was meant as a placeholder and is none."""
    if "{" in text and _MEANT.search(_PLACEHOLDER.sub("", text)):
        raise ValueError(
            "A placeholder is written {{secret:name}}, without blanks, with the name of one of your secrets."
        )
    return text


def fill(text: str, value_of: Callable[[str], str]) -> str:
    """``text`` with every placeholder replaced by the result of ``value_of`` for its name."""
    return _PLACEHOLDER.sub(lambda found: value_of(found[1]), text) if "{{" in text else text


def may_be_sent(target: str, *, hosts: Sequence[str]) -> bool:
    """Whether a secret that is bound to ``hosts`` may go to ``target``: ``host``, or ``host:port`` for another port.

    ``*.example.com`` is each host below example.com, at any depth; ``*`` is any host at any port.
    """
    for host in (host.translate(_NO_BRACKETS) for host in hosts):
        below = host.startswith("*.") and target.endswith(host[1:]) and target != host[1:]
        if below or host in ("*", target):
            return True
    return False


def not_for(target: str, *, name: str, hosts: Sequence[str]) -> str:
    """Why a secret is not sent to ``target``, and how to allow it."""
    return (
        f"The secret {name} is not for {target:.255}: it is bound to {', '.join(hosts)}. PUT /secrets/{name} binds it "
        "to other hosts, with its value."
    )


def hide(outcome: Outcome, values: Mapping[str, str]) -> Outcome:
    """``outcome`` with ``{{secret:name}}`` in place of every value, in every form in which an answer may echo it.

    It also replaces a piece of a value, where the value was cut on the way. A name may be longer than its value, so the
    outcome is bounded again.
    """
    forms = Forms(values)
    return rebounded(
        replace(
            outcome,
            error_message=forms.hidden(outcome.error_message),
            traceback=forms.hidden(outcome.traceback),
            response_excerpt=forms.hidden(outcome.response_excerpt),
            result=_hidden_deep(outcome.result, forms),
            said=_hidden_in(outcome.said, forms),
        )
    )


def hide_in(said: Said | None, values: Mapping[str, str]) -> Said | None:
    """The same for the output of a handler whose outcome is not known."""
    return _hidden_in(said, Forms(values)) if said and values else said


def _hidden_in(said: Said | None, forms: "Forms") -> Said | None:
    """Hides values in the beginning and the end separately: where the text was cut, a piece of a value may stand.

    The text is cleaned first: cleaning removes characters from the middle of a value, and only then the value shows.
    """
    if said is None:
        return None
    head, tail = (forms.hidden(cleaned(text)) for text in (said.head, said.tail))
    return Said(head, said.left_out, tail)


class Forms:
    """Every form of some secrets, and their pieces: each form in steps of ``PIECE``.

    So any part of a form that is twice as long as ``PIECE`` holds a piece. At the beginning and the end of a form half
    of that length is enough.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        pairs = {
            (form, f"{{{{secret:{name}}}}}") for name, value in values.items() for form in forms_of(value)
        }
        self._whole = sorted(pairs, key=lambda pair: -len(pair[0]))
        self._pieces: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for form, name in self._whole:
            for at in {*range(0, len(form) - PIECE + 1, PIECE), len(form) - PIECE}:
                if at >= 0:
                    self._pieces[form[at : at + PIECE]].append((form, at, name))

    def hidden(self, text: str) -> str:
        for form, name in self._whole:
            text = text.replace(form, name)
        text = self._without_pieces(text)
        return self._without_ends(text) if len(text.encode()) >= _CUT_BYTES else text

    def _without_pieces(self, text: str) -> str:
        """Follow each piece that is found in both directions, as far as the text agrees with the secret."""
        kept: list[str] = []
        done = at = 0
        while at <= len(text) - PIECE:
            found = self._pieces.get(text[at : at + PIECE])
            if found:
                runs = [(*_run(text, at, form, place, least=done), name) for form, place, name in found]
                start, end, name = max(runs, key=lambda run: run[1] - run[0])
                kept += [text[done:start], name]
                done = at = end
            else:
                at += 1
        return "".join([*kept, text[done:]]) if kept else text

    def _without_ends(self, text: str) -> str:
        """A text of this length may have been cut in the middle of a value, also of one shorter than a piece."""
        for form, name in self._whole:
            for length in range(min(PIECE, len(form) - 1, len(text)), _MIN_PIECE - 1, -1):
                if text.endswith(form[:length]):
                    text = text[:-length] + name
                if text.startswith(form[-length:]):
                    text = name + text[length:]
        return text


def _run(text: str, at: int, form: str, place: int, *, least: int) -> tuple[int, int]:
    """Start and end of the part of ``text`` that agrees with ``form``; the shared piece is at ``at`` and ``place``."""
    before = after = 0
    while at - before > least and place > before and text[at - before - 1] == form[place - before - 1]:
        before += 1
    while at + after < len(text) and place + after < len(form) and text[at + after] == form[place + after]:
        after += 1
    return at - before, at + after


def forms_of(value: str) -> set[str]:
    """The forms that clients, servers and logs may give a value: encoded, decoded, escaped."""
    decoded = {value, cleaned(value), unquote(value), unquote_plus(value), *_from_base64(value)}
    forms = decoded | {form for text in decoded for form in _encoded(text)}
    # A value as short as a word would be found everywhere.
    return {form for form in forms if len(form) >= _MIN_FORM}


def _encoded(text: str) -> Iterator[str]:
    raw = text.encode()
    yield from (json.dumps(text)[1:-1], repr(text)[1:-1], repr(raw)[2:-1], html.escape(text))
    percent = (
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
        quote(text, safe="!$&'()*+,/:;=@-._~"),
        "".join(f"%{byte:02X}" for byte in raw),
        *_as_clients_send(text),
    )
    for form in percent:
        yield form
        yield _ESCAPE.sub(lambda found: found[0].lower(), form)
    yield from (raw.hex(), raw.hex().upper())
    for lead in range(3):  # at any place in an encoded text, such as after a user's name and a colon
        whole = base64.b64encode(bytes(lead) + raw).decode().rstrip("=")
        inner = whole[(0, 2, 3)[lead] :]
        inner = inner if not (lead + len(raw)) % 3 else inner[:-1]
        for form in (inner, inner if lead else whole):
            yield from (form, form.translate(_URLSAFE))


def _as_clients_send(text: str) -> Iterator[str]:
    """``text`` as yarl requotes it in a path and in a query, and as yarl shows it to people."""
    for before in ("http://h/", "http://h/?q="):
        try:
            url = URL(before + text)
        except ValueError:
            continue
        yield from (str(url).removeprefix(before), url.human_repr().removeprefix(before))


def _from_base64(value: str) -> Iterator[str]:
    """The text that a target decodes from a value that is the base64 of a printable text."""
    try:
        text = base64.b64decode(value.translate(_STANDARD) + "=" * (-len(value) % 4), validate=True).decode()
    except ValueError:
        return
    if text.isprintable():
        yield text


def _hidden_deep(value: Any, forms: Forms) -> Any:
    match value:
        case str():
            return forms.hidden(value)
        case list():
            return [_hidden_deep(item, forms) for item in value]
        case dict():
            return {forms.hidden(str(key)): _hidden_deep(item, forms) for key, item in value.items()}
    return value
