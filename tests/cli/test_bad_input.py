"""Input that the API refuses, by the command: fields are named, nothing is stored, and there is no traceback."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import jobs_stored, noop_job
from tests.interfaces.api.test_bad_input import REFUSED


def bomb() -> str:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    return f"a0: &a0 [x]\n{levels}\n"


class TestDefinitions:
    @pytest.mark.parametrize("case", REFUSED)
    def test_are_refused_from_a_file_as_over_http(self, carillon: Command, tmp_path: Path, case: str) -> None:
        changes, fields = REFUSED[case]
        file = tmp_path / "job.json"
        file.write_text(json.dumps(noop_job(**changes)))
        refused = carillon("jobs", "create", "-f", str(file))
        assert refused.code == 1, refused.err
        assert all(f"{field} → " in refused.err for field in fields), refused.err
        assert "Traceback" not in refused.err
        assert jobs_stored() == 0


class TestFilesThatAreNone:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (bomb(), "aliases make the document too large"),
            ("[" * 100_000, "not YAML"),
            ("payload: " + "{a: " * 5_000 + "}" * 5_000, "not YAML"),
            ("payload: {a: " + "9" * 5_000 + "}", "not YAML"),
            ("a: b\n\tc: d\n", "job.yaml:2:"),
            ("a: 'unclosed\n", "job.yaml:2:"),
            ("a: {b: c\n", "job.yaml:2:"),
            ("? [a, b]\n: c\n", "a key must be a text"),
            ("a: !!python/object:os.system x\n", "could not determine a constructor"),
            ("", "must hold one definition"),
            ("a: 1\n---\na: 2\n", "must hold one definition"),
        ],
        ids=range(11),
    )
    def test_send_nothing(
        self, carillon: Command, api: ApiAdapter, tmp_path: Path, text: str, message: str
    ) -> None:
        file = tmp_path / "job.yaml"
        file.write_text(text)
        refused = carillon("jobs", "create", "-f", str(file))
        assert (refused.code, message in refused.err) == (2, True), refused.err[:500]
        assert api.sent == []

    def test_that_are_not_utf_8_name_the_line(self, carillon: Command, tmp_path: Path) -> None:
        file = tmp_path / "job.yaml"
        file.write_bytes(b"name: a\nlabels: {a: \xff}\n")
        assert f"{file}:2: not UTF-8" in carillon("jobs", "create", "-f", str(file)).err


class TestPayloads:
    @pytest.mark.parametrize(
        ("payload", "code"),
        [
            ('{"a": 1, "a": 2}', 2),
            ('{"a": NaN}', 2),
            ('{"a": 1e999}', 2),
            ("[" * 100_000, 2),
            ('{"a": ' + "9" * 5_000 + "}", 2),
            ("{'a': 1}", 2),
            ("", 2),
            (r'{"a": "\u0000"}', 1),
            (r'{"a": "\ud800"}', 1),
            ('{"a": ' + "[" * 40 + "]" * 40 + "}", 1),
            ("[]", 1),
        ],
        ids=range(11),
    )
    def test_are_refused(self, carillon: Command, payload: str, code: int) -> None:
        refused = carillon("jobs", "create", "a", "-t", "noop", "--every", "60", "--payload", payload)
        assert refused.code == code, refused.err[:500]
        assert "payload" in refused.err or "no JSON" in refused.err
        assert jobs_stored() == 0


class TestAServerError:
    def test_says_where_the_servers_log_has_more(
        self, carillon: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(**_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("jobs.actions.jobs.create_job", fail)
        failed = carillon("jobs", "create", "a", "-t", "noop", "--every", "60")
        assert failed.code == 5
        assert re.search(r"more under request_id [0-9a-f]{32}\.", failed.err), failed.err
