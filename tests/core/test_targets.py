"""Rules for targets: which pattern matches which host, and which rule wins."""

import re

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.core.errors import InvalidInput
from jobs.core.levers.targets import Limits, Rule, Rules, read_pattern, regex_of

#: pattern, target, whether it matches
MATCHES = [
    ("api.example.com", "api.example.com", True),
    ("api.example.com", "api.example.com:8443", True),
    ("api.example.com:8443", "api.example.com:8443", True),
    ("api.example.com:8443", "api.example.com", False),
    ("api.example.com:8443", "api.example.com:84430", False),
    ("api.example.com", "apixexample.com", False),
    ("api.example.com", "my-api.example.com", False),
    ("api.example.com", "api.example.com.evil.net", False),
    ("*.example.com", "api.example.com", True),
    ("*.example.com", "a.b.example.com:8443", True),
    ("*.example.com", "example.com", False),
    ("api-*.example.com", "api-7.example.com", True),
    ("api-*.example.com:81", "api-7.example.com:80", False),
    ("*1", "host:81", False),
    ("*", "anything.at.all:99", True),
    ("*", "2001:db8::1", True),
    ("[2001:db8::1]", "2001:db8::1", True),
    ("[2001:db8::1]:8443", "2001:db8::1:8443", True),
    ("[2001:db8::1]", "2001:db8::2", False),
    ("b\u00fccher.example", "b\u00fccher.example", True),
]


@pytest.mark.parametrize(("pattern", "target", "matches"), MATCHES)
def test_a_pattern_matches(pattern: str, target: str, matches: bool) -> None:
    assert (re.fullmatch(regex_of(read_pattern(pattern)), target) is not None) == matches


@pytest.mark.parametrize(
    "pattern",
    ["", " ", "a b", "http://api.example.com", "api.example.com/x", ".example.com", "a..b", "a:", "a:0", "a:65536",
     "a:b", "a:*", "*:80:90", "a*b*c*d", "[::1", "[*]", "a.", "-a", "x" * 256, "a\n", "a\0", "a@b", "a,b", "%41"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_pattern(pattern)
    assert list(refused.value.errors) == ["pattern"]


def test_a_pattern_is_kept_in_lower_case() -> None:
    assert read_pattern("API.Example.COM:8443") == "api.example.com:8443"


HOSTS = st.text("ab.:1", min_size=1, max_size=9)


class TestRegex:
    @pytest.mark.django_db
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        pattern=st.text("ab.*:1", min_size=1, max_size=7), targets=st.lists(HOSTS, min_size=20, max_size=20)
    )
    def test_says_the_same_to_python_and_to_postgres(self, pattern: str, targets: list[str]) -> None:
        try:
            regex = regex_of(read_pattern(pattern))
        except InvalidInput:
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT array_agg(t ~ %s ORDER BY n) FROM unnest(%s::text[]) WITH ORDINALITY u(t, n)",
                           [regex, targets])  # fmt: skip
            [(matched,)] = cursor.fetchall()
        assert matched == [re.fullmatch(regex, target) is not None for target in targets]

    def test_takes_no_time_over_a_hostile_host(self) -> None:
        rules = Rules([Rule("*a*b", 5)])
        for number in range(200):
            assert rules.of("a" * 250 + str(number)).rate_per_second == 0


PAUSED = Rule("*.example.com", paused=True, reason="Incident 42.")
#: The rules, a target, and the limits that hold for it.
LIMITS = [
    ([], "api.example.com", Limits()),
    ([Rule("*", 20)], "api.example.com", Limits(20)),
    ([Rule("*", 20)], "", Limits()),
    ([Rule("*", 20), Rule("api.example.com", 5)], "api.example.com", Limits(5)),
    ([Rule("*", 20), Rule("api.example.com", 5)], "other.example.com", Limits(20)),
    ([Rule("*", 20), Rule("api.example.com", 0)], "api.example.com", Limits(0)),
    ([Rule("*.example.com", 7), Rule("*", 20), Rule("*.com", 9)], "api.example.com", Limits(7)),
    ([Rule("a.example.com", 7), Rule("*.very.long.example.com", 9)], "a.example.com", Limits(7)),
    ([Rule("a.example.com", 7), Rule("a.example.com:81", 9)], "a.example.com:81", Limits(9)),
    ([Rule("a.example.com", 7), Rule("a.example.com:81", 9)], "a.example.com:82", Limits(7)),
    # Each limit by itself: a cap leaves the rate of a less specific rule, a pause both.
    ([Rule("*", 20), Rule("a.example.com", max_in_flight=3)], "a.example.com", Limits(20, 3)),
    ([Rule("a.example.com", 5, 3), PAUSED], "a.example.com", Limits(5, 3, PAUSED)),
    ([Rule("*", 20, set_by_operator=False), Rule("*", max_in_flight=3)], "a.b", Limits(20, 3)),
    ([Rule("*", 20, set_by_operator=False), Rule("*", 9)], "a.b", Limits(9)),
]


class TestRules:
    @pytest.mark.parametrize(("rules", "target", "limits"), LIMITS)
    def test_give_each_limit_by_the_most_specific_that_sets_it(
        self, rules: list[Rule], target: str, limits: Limits
    ) -> None:
        assert Rules(rules).of(target) == Rules(reversed(rules)).of(target) == limits

    def test_remember_no_more_targets_than_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.core.levers.targets._REMEMBERED", 10)
        rules = Rules([Rule("*", 5)])
        for number in range(100):
            assert rules.of(f"host-{number}").rate_per_second == 5
        assert len(rules._known) <= 10
