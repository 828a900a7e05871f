"""Trace contexts as W3C writes them (https://www.w3.org/TR/trace-context): read, kept with a trigger, sent on.

A caller's context is kept as one text, ``traceparent`` or ``traceparent tracestate``. A malformed part counts as
absent, as the specification says: it is no error of the call that it came with.
"""

import re
from typing import NamedTuple

#: ``00-``, 32 digits of the trace's id, 16 of the span's, two of flags.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = r"[a-z0-9][a-z0-9_\-*/]{0,240}(?:@[a-z][a-z0-9_\-*/]{0,13})?"
_MEMBER = re.compile(rf"{_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
#: The specification asks to pass on as many characters; nothing of a longer one is passed on.
MAX_TRACESTATE_LENGTH = 512
_MAX_MEMBERS = 32
#: The length of a kept context: ``traceparent``, a blank, ``tracestate``.
MAX_KEPT_LENGTH = 55 + 1 + MAX_TRACESTATE_LENGTH
#: The flags that there are: sampled, and that the trace's id is random. Others are not passed on.
SAMPLED, RANDOM = 1, 2


class TraceContext(NamedTuple):
    """A span and its trace, as others are told of them: ids in hexadecimal digits, ``flags``, ``tracestate``."""

    trace_id: str
    span_id: str
    flags: int = 0
    tracestate: str = ""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def kept(self) -> str:
        """The context as a column keeps it; ``recall`` reads it."""
        return f"{self.traceparent} {self.tracestate}" if self.tracestate else self.traceparent

    def headers(self) -> dict[str, str]:
        """The headers by which a request or a message carries it."""
        told = {"traceparent": self.traceparent}
        return told | {"tracestate": self.tracestate} if self.tracestate else told


def read(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """The context in a caller's headers; None: there is no valid ``traceparent``. A bad ``tracestate`` is left out.

    If the version is later than 00, the parts that 00 knows are read.
    """
    match = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest is not None):
        return None
    if trace_id == "0" * 32 or span_id == "0" * 16:
        return None
    return TraceContext(trace_id, span_id, int(flags, 16) & (SAMPLED | RANDOM), _sound(tracestate))


def recall(kept: str) -> TraceContext | None:
    """Read the text that ``TraceContext.kept`` wrote."""
    traceparent, _, tracestate = kept.partition(" ")
    return read(traceparent, tracestate)


def _sound(tracestate: str) -> str:
    members = [member.strip(" \t") for member in tracestate.split(",")]
    members = [member for member in members if member]
    sound = ",".join(members)
    if len(sound) > MAX_TRACESTATE_LENGTH or len(members) > _MAX_MEMBERS:
        return ""
    if not all(_MEMBER.fullmatch(member) for member in members):
        return ""
    keys = [member.partition("=")[0] for member in members]
    return sound if len(set(keys)) == len(keys) else ""
