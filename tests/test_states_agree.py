"""One state machine, written in three places: ``jobs.core.states``, the headers of the SQL and the documentation."""

import re
from pathlib import Path

import pytest

from jobs.core.states import TRANSITIONS, TriggerState, Verb
from jobs.store import db

ROOT = Path(__file__).parent.parent
#: Statements that move triggers, and the verbs they carry out.
VERBS = {
    "jobs.insert": {Verb.MATERIALIZE},
    "jobs.materialize": {Verb.MATERIALIZE},
    "catchup.skip": {Verb.SKIP},
    "notices.send": {Verb.MATERIALIZE},
    "dispatch.dispatch": {Verb.DISPATCH},
    "dispatch.skip": {Verb.SKIP},
    "dispatch.skip_missed": {Verb.SKIP},
    "dispatch.freeze": {Verb.SKIP},
    "parking.collapse": {Verb.SKIP},
    "parking.replace": {Verb.CANCEL},
    "dispatch.cancel": {Verb.CANCEL},
    "execution.claim": {Verb.CLAIM},
    "execution.adopt": {Verb.RENEW},
    "execution.hand_back": {Verb.CLAIM},
    "execution.renew": {Verb.RENEW},
    "execution.succeed": {Verb.SUCCEED},
    "execution.finish": {Verb.SUCCEED, Verb.RETRY, Verb.BURY, Verb.CANCEL},
    "reap.reap_running": {Verb.REAP},
    "reap.give_up": {Verb.RETRY, Verb.BURY, Verb.CANCEL},
    "reap.reap_queued": {Verb.REAP},
    "lifecycle.hand_back_jobs": {Verb.REAP},
    "lifecycle.skip_paused": {Verb.SKIP},
    "lifecycle.cancel_jobs": {Verb.CANCEL},
    "lifecycle.cancel": {Verb.CANCEL},
    "lifecycle.replay": {Verb.REPLAY},
    "workflows.answer": {Verb.ANSWER},
}
Move = tuple[str, str]


def states_of(text: str) -> list[str]:
    """``"pending, retrying"`` -> the states; ``"-"`` stands for a trigger that does not exist yet."""
    states = [word.strip() for word in text.split(",")]
    assert set(states) <= {"-", *TriggerState}, f"{text!r} names a state that does not exist"
    return states


def moves_of(query: db.Query) -> set[Move]:
    headers = [header.split("->") for header in query.headers.get("transition", [])]
    return {
        (old, new) for sources, targets in headers for old in states_of(sources) for new in states_of(targets)
    }


def moves_in_code(verb: Verb) -> set[Move]:
    return {(old, new) for row in TRANSITIONS[verb] for old in row.sources or {"-"} for new in row.targets}


MOVING = {name: query for name, query in db.all_queries().items() if "transition" in query.headers}


class TestTheSqlHeaders:
    def test_belong_to_a_statement_whose_verbs_are_known(self) -> None:
        assert set(MOVING) == set(VERBS)

    @pytest.mark.parametrize("name", sorted(VERBS))
    def test_allow_nothing_the_table_forbids(self, name: str) -> None:
        allowed = set().union(*(moves_in_code(verb) for verb in VERBS[name]))
        assert moves_of(MOVING[name]) <= allowed

    @pytest.mark.parametrize("verb", list(Verb))
    def test_cover_every_transition_of_the_table(self, verb: Verb) -> None:
        written = set().union(*(moves_of(MOVING[name]) for name, verbs in VERBS.items() if verb in verbs))
        assert moves_in_code(verb) <= written

    @pytest.mark.parametrize("name", sorted(db.all_queries()))
    def test_stand_above_every_statement_that_sets_a_state(self, name: str) -> None:
        query = db.all_queries()[name]
        changes = re.findall(r"UPDATE jobs_trigger\b.*?\bSET\b(.*?)\b(?:FROM|WHERE)\b", query.sql, re.DOTALL)
        sets_a_state = any(re.search(r"\bstate =", change) for change in changes)
        assert ("transition" in query.headers) or not (
            sets_a_state or "INSERT INTO jobs_trigger" in query.sql
        )

    @pytest.mark.parametrize("name", sorted(VERBS))
    def test_name_only_sources_the_statement_tests(self, name: str) -> None:
        sources = {old for old, _ in moves_of(MOVING[name])} - {"-"}
        statement = re.sub(r"^--.*$", "", MOVING[name].sql, flags=re.MULTILINE)
        assert all(f"'{state}'" in statement for state in sources)


class TestTheDocumentation:
    def test_shows_exactly_the_transitions_of_the_table(self) -> None:
        text = (ROOT / "docs" / "state-machine.md").read_text()
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|", text, re.MULTILINE)
        written = {
            (verb, old, new)
            for verb, sources, targets in rows
            for old in re.findall(r"`([\w-]+)`", sources)
            for new in re.findall(r"`([\w-]+)`", targets)
        }
        assert written == {(verb, *move) for verb in Verb for move in moves_in_code(verb)}
