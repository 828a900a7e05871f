"""``manage.py size``: the resources that a load needs, in words and as JSON."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.core.sizing import COSTS

GIVEN = ("--firings-per-second", "100", "--runtime", "0.2", "--retention-days", "90")


def said(*arguments: str) -> str:
    out = io.StringIO()
    call_command("size", *arguments, stdout=out)
    return out.getvalue()


class TestSize:
    def test_says_each_need_with_its_formula(self) -> None:
        lines = said(*GIVEN).splitlines()
        at = lines.index("worker slots: 29 pool processes")
        assert lines[at + 1] == "    = (20 in flight + 100 a second / 4,471) / 0.7, at least 2"
        assert any(line.startswith("disk: ") for line in lines)

    def test_says_what_the_page_shows(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text()
        assert f"$ manage.py size {' '.join(GIVEN)}\n{said(*GIVEN)}```\n" in page

    def test_says_the_same_as_json_with_the_costs_and_their_sources(self) -> None:
        told = json.loads(said(*GIVEN, "--webhooks", "--json"))
        assert told["load"]["webhooks"] is True
        assert told["needs"]["worker_slots"]["value"] == 2
        assert told["costs"].keys() == COSTS.keys()
        assert all(cost["source"] for cost in told["costs"].values())

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("--firings-per-second", "0"),
            ("--runtime", "-1"),
            ("--retention-days", "nan"),
            ("--attempts", "0.5"),
        ],
    )
    def test_refuses_a_number_out_of_bounds_by_the_option(self, name: str, wrong: str) -> None:
        with pytest.raises(CommandError, match=f"{name}: Must be from"):
            said(*GIVEN, name, wrong)

    def test_refuses_what_is_no_number_by_the_option(self) -> None:
        with pytest.raises(CommandError, match="--runtime: invalid float value: 'often'"):
            said(*GIVEN[:2], "--runtime", "often", *GIVEN[4:])
