r"""Odd lines of crontabs, one by one: their reading and their messages. After crontab(5) of cronie and Vixie cron."""

import pytest

from carillon.crontab.reading import Entry, Unreadable, read
from carillon.crontab.translation import translate


def one(text: str, *, system: bool = False) -> Entry | Unreadable:
    (found,) = read(text, system=system)
    return found


READ = [
    ("* * * * * a", "* * * * *", "a", None),
    ("  \t* * * * * a", "* * * * *", "a", None),
    ("*\t*\t*\t*\t*\ta b", "* * * * *", "a b", None),
    ("0 0 * * * a  b   c", "0 0 * * *", "a  b   c", None),
    ("0 0 * * * a\r", "0 0 * * *", "a", None),
    ("0 0 * * * a # no comment", "0 0 * * *", "a # no comment", None),
    ("0 0 * * * A=1 a", "0 0 * * *", "A=1 a", None),
    ("0 0 * * * a = b", "0 0 * * *", "a = b", None),
    ("@daily a", "@daily", "a", None),
    ("@daily\ta b", "@daily", "a b", None),
    ("-@daily a", "@daily", "a", None),
    ("-*/5 * * * * a", "*/5 * * * *", "a", None),
    ("0 0 * * SUN a", "0 0 * * SUN", "a", None),
    (r"0 0 * * * a \% b", "0 0 * * *", "a % b", None),
    ("0 0 * * * a%", "0 0 * * *", "a", "\n"),
    ("0 0 * * * a%b", "0 0 * * *", "a", "b\n"),
    ("0 0 * * * a%b%c", "0 0 * * *", "a", "b\nc\n"),
    (r"0 0 * * * a\%b%c\%d", "0 0 * * *", "a%b", "c%d\n"),
]
UNREADABLE = ["a", "* * * * *", "* * * *  ", "@daily", "0 0 * * * %a", "0 0 * * * % ", "just some words"]
VARIABLES = [
    ("A=1", {"A": "1"}),
    ("A = 1", {"A": "1"}),
    ("  A=1  ", {"A": "1"}),
    ("A=", {"A": ""}),
    ('A="x y "', {"A": "x y "}),
    ("A='x'", {"A": "x"}),
    ('"A B"=1', {"A B": "1"}),
    ("A=b=c", {"A": "b=c"}),
    ("A=$B", {"A": "$B"}),
    ("A=1 # kept", {"A": "1 # kept"}),
    ("A=1\nA=2", {"A": "2"}),
]
SAID = [
    ("@reboot a", "Fires when a machine starts"),
    ("@Reboot a", "Fires when a machine starts"),
    ("@every_minute a", "Is BSD's"),
    ("@every_second a", "Is BSD's"),
    ("@fortnightly a", "Is not a schedule"),
    ("~ * * * * a", "Each cron draws"),
    ("0~30 * * * * a", "Each cron draws"),
    ("0 0 1 * 1 a", "fires on either kind of day"),
    ("0 0 */2 * 1 a", "cron wants both"),
    ("0 0 1 * */2 a", "cron wants both"),
    ("5/10 * * * * a", "crons differ on n/step"),
    ("0 1,5/2 * * * a", "crons differ on n/step"),
    ("0 0 * * * a%b", "is standard input"),
    ("TZ=UTC\n0 0 * * * a", "TZ applies to commands only"),
    ("MAILTO=me\n0 0 * * * a", "nothing is mailed"),
    ("RANDOM_DELAY=5\n0 0 * * * a", "RANDOM_DELAY is left out"),
    ("0 0 * * * a", "read as UTC"),
]


class TestLines:
    @pytest.mark.parametrize(("text", "expression", "command", "stdin"), READ)
    def test_are_read_as_cron_reads_them(
        self, text: str, expression: str, command: str, stdin: str | None
    ) -> None:
        assert one(text) == Entry(1, expression, None, command, stdin, {})

    @pytest.mark.parametrize("text", UNREADABLE)
    def test_that_are_none_are_told_from_the_others(self, text: str) -> None:
        assert isinstance(one(text), Unreadable)

    @pytest.mark.parametrize("text", ["", "  ", "# a", "   # a", "#* * * * * a"])
    def test_that_are_empty_or_comments_say_nothing(self, text: str) -> None:
        assert list(read(text, system=False)) == []

    @pytest.mark.parametrize(("text", "environment"), VARIABLES)
    def test_of_the_environment_hold_below_them(self, text: str, environment: dict[str, str]) -> None:
        first, second = read(f"@daily a\n{text}\n@daily b\n", system=False)
        assert (first.environment, second.environment) == ({}, environment)  # type: ignore[union-attr]

    def test_of_system_crontabs_name_a_user(self) -> None:
        found = one("@daily root a b", system=True)
        assert isinstance(found, Entry)
        assert (found.user, found.command) == ("root", "a b")
        assert isinstance(one("@daily root", system=True), Unreadable)

    @pytest.mark.parametrize(("text", "words"), SAID)
    def test_that_are_doubtful_are_explained(self, text: str, words: str) -> None:
        found = translate(read(text, system=False), source="tab", job_type="x", timezone=None, prefix="")
        assert any(words in said for _, said in [*found.notes, *found.refusals])
