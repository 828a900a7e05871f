"""Texts by others that would steer the terminal that prints them, or make a line read as another."""
# ruff: noqa: F811  (fixtures of the command line's tests, which functions name again)

import json

import pytest

from carillon.files.yaml_text import load
from carillon.output import Format, print_document
from tests import factories
from tests.cli.conftest import Command, api, carillon, owner  # noqa: F401
from tests.interfaces.api.caller import Caller

#: C0, DEL, C1, marks and overrides of direction, line separators, tags.
HOSTILE = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff",
    "\U000e0041",
]
PLAIN = "naïve 日本語 emoji ✓ 🎉 \u3000 'quoted' \"twice\" #: - x"


def printed(capsys: pytest.CaptureFixture[str], document: object, output: Format) -> str:
    capsys.readouterr()
    print_document(document, output=output)
    return capsys.readouterr().out


def read(text: str, output: Format) -> object:
    return json.loads(text) if output is Format.json else next(load(text, source="out"))[0]


@pytest.mark.parametrize("output", [Format.json, Format.yaml])
class TestDocuments:
    @pytest.mark.parametrize("character", HOSTILE, ids=lambda character: f"U+{ord(character):04X}")
    def test_hold_no_character_that_a_terminal_obeys(
        self, capsys: pytest.CaptureFixture[str], output: Format, character: str
    ) -> None:
        document = {
            "message": f"a{character}b",
            f"key{character}": [f"{character}", f"{PLAIN}{character}" * 20],
            "last": "kept",
        }
        text = printed(capsys, document, output)
        assert character == "\n" or character not in text
        assert read(text, output) == document  # nothing is lost

    def test_are_otherwise_as_they_were(self, capsys: pytest.CaptureFixture[str], output: Format) -> None:
        document = {"message": PLAIN, "lines": "one\ntwo\n", "n": 1}
        text = printed(capsys, document, output)
        for word in ("naïve", "日本語", "✓", "🎉"):
            assert word in text
        assert read(text, output) == document


class TestCommands:
    @pytest.mark.parametrize("output", ["json", "yaml", "table"])
    def test_tell_of_a_workers_error_without_obeying_it(
        self,
        carillon: Command,
        owner: Caller,
        output: str,
    ) -> None:
        dead = factories.make_trigger(factories.make_job(owner.tenant), "dead")
        message = "a\x9b2Jb\x7fc\u202ed\x1b]0;owned\x07"
        factories.make_attempt(dead, "failed", error_code=message[:32], error_message=message)
        told = carillon("attempts", "--trigger", str(dead.id), "-o", output)
        assert told.code == 0, told.err
        assert not set("\x9b\x7f\u202e\x1b\x07") & set(told.out)
        assert "owned" in told.out

    def test_control_an_open_door_sends_them(self) -> None:
        """The earlier output: as JSON and YAML print it of themselves."""
        text = json.dumps("\x9b\x7f\u202e", ensure_ascii=False)
        assert {"\x9b", "\x7f", "\u202e"} <= set(text)
