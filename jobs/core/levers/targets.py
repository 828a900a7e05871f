"""Rules for targets, the hosts that handlers call: which pattern matches which target, and which rule wins.

A pattern is a host in which ``*`` stands for any characters except a colon. It may have a port; without one it matches
the host at any port. ``*`` alone matches every target. Each limit is taken from the most specific matching rule that
sets it: a host without ``*`` before any pattern with one, a longer pattern before a shorter one, an operator's rule
before one of the settings with the same pattern. So a pause of ``*.example.com`` leaves the rate of ``api.example.com``
as it is, and holds there too.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from jobs.core.errors import InvalidInput

EVERY = "*"
MAX_PATTERN_LENGTH = 255
#: Each costs the search for a match as much again as the host is long, and tenants choose the hosts.
MAX_STARS = 2
MIN_RATE, MAX_RATE = 0.001, 100_000.0
MAX_IN_FLIGHT = 1_000_000
#: How many targets' limits are remembered; tenants invent targets.
_REMEMBERED = 10_000
_NAME = re.compile(r"[\w*](?:[\w.*-]*[\w*])?(?::(?P<port>[0-9]{1,5}))?")
_ADDRESS = re.compile(r"\[(?P<address>[0-9a-f:.]{2,45})\](?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class Rule:
    """The limits of each target that ``pattern`` matches. A field that is None, and ``paused`` as False, sets nothing.

    ``rate_per_second``: calls a second; 0: no limit. ``max_in_flight``: queued or running at once. ``paused``: nothing
    starts, because of ``reason``, from ``since`` on. ``set_by_operator``: not by the settings.
    """

    pattern: str
    rate_per_second: float | None = None
    max_in_flight: int | None = None
    paused: bool = False
    reason: str = ""
    since: datetime | None = field(default=None, compare=False)
    set_by_operator: bool = True

    @property
    def _specificity(self) -> tuple[bool, int, bool, str]:
        return EVERY not in self.pattern, len(self.pattern), self.set_by_operator, self.pattern


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one target. ``rate_per_second``: 0 is no limit. ``paused_by``: the rule that pauses it."""

    rate_per_second: float = 0.0
    max_in_flight: int | None = None
    paused_by: Rule | None = None


NO_LIMITS = Limits()


class Rules:
    """All rules of an installation; immutable. ``version``: counts the changes that operators made."""

    def __init__(self, rules: Iterable[Rule] = (), *, version: int = 0) -> None:
        self.version = version
        self._rules = sorted(rules, key=lambda rule: rule._specificity, reverse=True)
        self._matchers = [re.compile(regex_of(rule.pattern)) for rule in self._rules]
        self._known: dict[str, Limits] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def of(self, target: str) -> Limits:
        """The limits of ``target``, as a job names it; "": the job calls no host that is known."""
        if not self._rules or not target:
            return NO_LIMITS
        known = self._known.get(target)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[target] = self._find(target)
        return known

    def pauses(self, target: str) -> bool:
        """Whether a rule pauses ``target``."""
        return self.of(target).paused_by is not None

    def _find(self, target: str) -> Limits:
        matching = [
            rule
            for rule, matcher in zip(self._rules, self._matchers, strict=True)
            if matcher.fullmatch(target)
        ]
        rates = (rule.rate_per_second for rule in matching if rule.rate_per_second is not None)
        caps = (rule.max_in_flight for rule in matching if rule.max_in_flight is not None)
        pauses = (rule for rule in matching if rule.paused)
        return Limits(next(rates, 0.0), next(caps, None), next(pauses, None))


def read_pattern(text: str) -> str:
    """A pattern as it is stored: in lower case. Raises ``InvalidInput`` for one that can match no target."""
    pattern = text.lower()
    found = _ADDRESS.fullmatch(pattern) or _NAME.fullmatch(pattern)
    if found is None or ".." in pattern or len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidInput(
            {
                "pattern": "Must be a host such as api.example.com, api.example.com:8443, [2001:db8::1] or "
                "*.example.com; * alone is every host."
            }
        )
    if pattern.count(EVERY) > MAX_STARS:
        raise InvalidInput({"pattern": f"May have at most {MAX_STARS} *."})
    if found["port"] is not None and not 1 <= int(found["port"]) <= 65_535:
        raise InvalidInput({"pattern": "The port must be from 1 to 65535."})
    return pattern


@cache
def regex_of(pattern: str) -> str:
    """The regular expression that matches a pattern's targets from end to end, for Python and for Postgres alike."""
    if pattern == EVERY:
        return "^.*$"
    address = _ADDRESS.fullmatch(pattern)
    if address is not None:  # jobs name addresses without brackets
        host, port = address["address"], address["port"]
    else:
        host, _, port = pattern.partition(":")
    parts = "[^:]*".join(re.escape(part) for part in host.split(EVERY))
    return f"^{parts}{f':{port}' if port else '(:[0-9]{1,5})?'}$"
