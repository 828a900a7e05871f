"""The sabotages by name: the promise of DESIGN §2 that breaks, the change to the engine, and the breach that shows it.

``tests/chaos/test_sabotage.py`` holds every edit to the present SQL: after a change to a statement, say here again how
its guard is taken out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.stage import HURRIED


class Edit(NamedTuple):
    """``was``, found once in the statement ``noun.name``, becomes something else."""

    query: str
    was: str
    becomes: str = ""


def edited_function(signature: str, *edits: tuple[str, str]) -> str:
    """SQL that puts the second text of each pair in the place of the first in a function of the database.

    It fails where the first text is not found exactly once: the function has changed meanwhile.
    """
    steps = "".join(
        f"""
        IF (length(text) - length(replace(text, $w${was}$w$, ''))) / length($w${was}$w$) <> 1 THEN
            RAISE EXCEPTION '% holds % not once: tell chaos/sabotage/catalogue.py how its guard is taken out now',
                {signature!r}, $w${was}$w$;
        END IF;
        text := replace(text, $w${was}$w$, $w${becomes}$w$);"""
        for was, becomes in edits
    )
    return (
        f"DO $do$ DECLARE text text := pg_get_functiondef({signature!r}::regprocedure);"
        f"BEGIN{steps}\nEXECUTE text; END $do$"
    )


@dataclass(frozen=True, kw_only=True)
class Sabotage:
    """One promise broken. ``caught_as``: the kinds of breach of which the judge must find one at least; empty: none.

    ``of_workflows``: it shows in their runs, so it takes few jobs. ``code`` names a function of ``act``, ``schema`` is
    executed before the load is made. Without ``fault`` it must show in calm; with one, after ``strikes`` of it, from
    ``first`` on, that last ``hold_seconds``.
    """

    name: str
    breaks: str
    caught_as: frozenset[str]
    edits: tuple[Edit, ...] = ()
    code: str = ""
    schema: str = ""
    of_workflows: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    fault: int = 0
    strikes: int = 1
    first: int = 0
    hold_seconds: float = 0.0


_ALL = (
    Sabotage(name="nothing", breaks="nothing: the control", caught_as=frozenset()),
    Sabotage(
        name="fence",
        breaks="a worker takes what a spent message names (3: one owner)",
        caught_as=frozenset({"fence"}),
        edits=(
            Edit("execution.claim", "AND t.fence = fit.fence "),
            Edit("execution.claim", "AND CASE t.state WHEN 'queued' THEN true END"),
            Edit("execution.claim", "state = 'running', worker", "state = 'running', reason = '', worker"),
        ),
        environment=HURRIED,
        fault=4,
        strikes=3,
        hold_seconds=10.0,
    ),
    Sabotage(
        name="unique",
        breaks="two leaders, no lock on jobs, and nothing that makes a firing unique (2: no firing is doubled)",
        caught_as=frozenset({"doubled firing"}),
        edits=(
            Edit("jobs.materialize", "ON CONFLICT (job_id, scheduled_for) DO NOTHING"),
            Edit("jobs.take_due", "FOR NO KEY UPDATE SKIP LOCKED"),
        ),
        code="linger_before_advancing",
        schema="ALTER TABLE jobs_trigger DROP CONSTRAINT trigger_one_per_firing",
        environment={"CARILLON_LEADER_ELECTION": "false"},
    ),
    Sabotage(
        name="publish",
        breaks="messages leave before their rows are committed (5: on time)",
        caught_as=frozenset({"late", "lost"}),
        code="publish_before_commit",
    ),
    Sabotage(
        name="lease",
        breaks="what a worker holds is taken from it though its lease goes on (4: duplicates are bounded)",
        caught_as=frozenset({"executed twice"}),
        edits=(
            Edit("reap.expired_leases", "AND t.lease_expires_at < carillon_now()"),
            Edit("reap.reap_running", "AND t.lease_expires_at < carillon_clock()"),
        ),
    ),
    Sabotage(
        name="reap",
        breaks="what a dead worker held stays with it (1: no firing is lost)",
        caught_as=frozenset({"lost", "unfinished"}),
        edits=(
            Edit("reap.expired_leases", "t.state = 'running' AND", "false AND"),
            Edit("reap.reap_queued", "AND queued_at < carillon_now() - %(deadline)s", "AND false"),
        ),
        environment=HURRIED,
        fault=1,
        strikes=2,
    ),
    Sabotage(
        name="forgotten",
        breaks="one firing in seven gets no trigger (1: no firing is lost)",
        caught_as=frozenset({"lost", "unrecorded"}),
        edits=(Edit("jobs.materialize", "ON CONFLICT", "WHERE hashtext(f.id::text) %% 7 <> 0\nON CONFLICT"),),
    ),
    Sabotage(
        name="early",
        breaks="what is due within a second starts (6: never early)",
        caught_as=frozenset({"early"}),
        edits=(
            Edit(
                "dispatch.news", "SELECT carillon_now() AS now", "SELECT carillon_now() + '1 second' AS now"
            ),
            Edit(
                "dispatch.candidates",
                "AND t.due_at <= carillon_now()",
                "AND t.due_at <= carillon_now() + '1 second'",
            ),
        ),
    ),
    Sabotage(
        name="resend",
        breaks="a request is sent again where its connection broke, within one attempt (4: duplicates are bounded)",
        caught_as=frozenset({"fence"}),
        code="send_again",
    ),
    Sabotage(
        name="leftovers",
        breaks="what a handler left open stays open (12: nobody stops the rest)",
        caught_as=frozenset({"shared fate", "executed twice", "lost", "unfinished"}),
        code="keep_leftovers",
        environment=HURRIED,
        fault=23,
        first=1,
        hold_seconds=20.0,
    ),
    Sabotage(
        name="unguarded",
        breaks="nobody keeps the leases of a process whose interpreter is held (4: duplicates are bounded)",
        caught_as=frozenset({"executed twice"}),
        code="guard_nothing",
        environment=HURRIED,
        fault=23,
        hold_seconds=15.0,
    ),
    Sabotage(
        name="locks",
        breaks="dispatch waits for a lock on a tenant or its queue (12: nobody stops the rest)",
        caught_as=frozenset({"shared fate"}),
        edits=(
            Edit("dispatch.lock_tenants", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
            Edit("queues.lock", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
        ),
        fault=20,
        first=3,
        strikes=2,
        hold_seconds=12.0,
    ),
    Sabotage(
        name="half-sent",
        breaks="the web server gives a thread to whoever begins a request (12: nobody stops the rest)",
        caught_as=frozenset({"no api"}),
        environment={"GUNICORN_CMD_ARGS": "--worker-class gthread"},
        fault=29,
        hold_seconds=25.0,
    ),
    Sabotage(
        name="zones",
        breaks="next instants stay as they are when the rules of their time zones change (1: no firing is lost)",
        caught_as=frozenset({"lost", "unrecorded", "phantom"}),
        code="keep_instants",
        fault=27,
        first=2,
    ),
    Sabotage(
        name="overlap",
        breaks="dispatch does not look at the job's other firings (overlap policies)",
        caught_as=frozenset({"overlap"}),
        edits=(
            Edit(
                "dispatch.facts",
                "SELECT count(*) FROM jobs_trigger other",
                "SELECT 0 * count(*) FROM jobs_trigger other",
            ),
            Edit("dispatch.facts", "others.retries::int", "0 * others.retries::int"),
        ),
    ),
    Sabotage(
        name="fan-in",
        breaks="a task with several before it counts each of them twice (ADR 32: it starts once all have ended)",
        caught_as=frozenset({"early"}),
        schema=edited_function(
            "carillon_settle_run(uuid)",
            # A task after only one would not start at all: that would show as lost, not as a fault of the counter.
            (
                "c.met + count(*) FILTER (WHERE e.is_met) AS met",
                "c.met + least(t.incoming, 2) * count(*) FILTER (WHERE e.is_met) AS met",
            ),
            ("THEN w.met = w.incoming ELSE", "THEN w.met >= w.incoming ELSE"),
        ),
        of_workflows=True,
    ),
    Sabotage(
        name="child-key",
        breaks="what has started is started again when another task ends (ADR 32: once for each outcome)",
        caught_as=frozenset({"executed twice", "fence"}),
        schema=edited_function(
            "carillon_settle_run(uuid)",
            ("r.state = 'started' AND run.max_parallel IS NOT NULL", "r.state = 'started'"),
            ("WHERE state = 'ready' AND NOT is_free", "WHERE NOT is_free"),
            (
                "id = ANY(ARRAY(SELECT id FROM chosen)) AND CASE state WHEN 'ready' THEN true END",
                "id = ANY(ARRAY(SELECT id FROM chosen))",
            ),
            ("WHERE known.state IN ('succeeded', 'dead', 'skipped', 'cancelled');", "WHERE true;"),
        ),
        of_workflows=True,
    ),
)
SABOTAGES = {sabotage.name: sabotage for sabotage in _ALL}
