"""Runs: the cost of lists of workflow runs, of a run's graph and its explanation, with 100,000 runs of ten tasks.

The peer is Carillon itself with 100. Pages are requested in this process, as in ``console``: the time is the server's.
Runs are spread over weeks. One in ten failed, and the tasks after the failure were skipped; one run still goes on.
Lists of jobs and triggers of the same database stand beside them.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from psycopg import sql

from benchmarks import carillon
from benchmarks.carillon import graphs
from benchmarks.carillon.rows import grow
from benchmarks.console import MOST_MS, MOST_QUERIES, Asked, ask
from benchmarks.creation import key
from benchmarks.report import Report, Row
from benchmarks.stage import Stage

SIZES = (100, 100_000)
TASKS, DAYS = 10, 80
#: One in so many runs failed, at this task.
ONE_IN_FAILED, FAILED_AT = 10, 5
JOBS = ("GET /jobs", "GET /triggers")


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of runs."""
    sizes = [max(20, int(size * scale)) for size in SIZES]
    small, large = (dict(_ask_all(stage, size)) for size in sizes)
    of_runs = {page: asked for page, asked in large.items() if page not in JOBS}
    worst = max(of_runs, key=lambda page: of_runs[page].ms)
    slow = {
        page: asked for page, asked in of_runs.items() if asked.ms > MOST_MS or asked.queries > MOST_QUERIES
    }
    return Report(
        name="runs",
        title=f"Server time of pages about workflow runs, {sizes[1]:,} runs of {TASKS} tasks on record",
        unit=f"ms of the slowest page ({worst}); peer: with {sizes[0]:,} runs",
        ours=large[worst].ms,
        peer=small[worst].ms,
        ratio=small[worst].ms / large[worst].ms,
        columns=("ms, few runs", "ms, many", "statements"),
        rows=tuple(
            Row(page, (f"{small[page].ms:.1f}", f"{asked.ms:.1f}", str(asked.queries)))
            for page, asked in sorted(large.items(), key=lambda item: -item[1].ms)
        ),
        more={
            "jobs_ms": {page: round(large[page].ms, 1) for page in JOBS},
            "beyond_limits": {page: [round(asked.ms), asked.queries] for page, asked in slow.items()},
        },
    )


def _ask_all(stage: Stage, count: int) -> Iterator[tuple[str, Asked]]:
    from django.contrib.auth.models import User
    from django.test import Client
    from django.test.utils import setup_test_environment, teardown_test_environment
    from django.urls import reverse

    from jobs.models import WorkflowRun

    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    workflow_id = graphs.make_workflow(graphs.chain(TASKS))
    _write_runs(stage, workflow_id, count)
    [present] = graphs.begin(workflow_id)
    stage.say(f"{count:,} runs: analyzing")
    stage.settle()
    failed = WorkflowRun.objects.filter(state="failed").values_list("id", flat=True)[0]
    api, run = "/api/v1", f"/api/v1/workflow-runs/{failed}"
    pages = {
        **{page: api + page.removeprefix("GET ") for page in JOBS},
        "GET /workflow-runs": f"{api}/workflow-runs",
        "GET /workflow-runs?workflow=": f"{api}/workflow-runs?workflow={workflow_id}",
        "GET /workflow-runs?state=failed": f"{api}/workflow-runs?state=failed",
        "GET /workflow-runs?state=running": f"{api}/workflow-runs?state=running",
        "GET /workflow-runs/{id}": run,
        "GET /workflow-runs/{id}/explain": f"{run}/explain",
        "GET /workflow-runs/{id}/explain?task=": f"{run}/explain?task=step{TASKS - 1}",
        "GET /workflow-runs/{id of one that goes on}/explain": f"{api}/workflow-runs/{present}/explain",
        "GET /workflows": f"{api}/workflows",
        "console, workflow runs": reverse("admin:jobs_workflowrun_changelist"),
        "console, workflow runs that failed": f"{reverse('admin:jobs_workflowrun_changelist')}?state__exact=failed",
        "console, a run with a task": f"{reverse('admin:jobs_workflowrun_change', args=[failed])}?task=step{FAILED_AT}",
        "console, workflows": reverse("admin:jobs_workflow_changelist"),
        "console, a workflow": reverse("admin:jobs_workflow_change", args=[workflow_id]),
    }
    setup_test_environment(debug=False)
    try:
        client, headers = Client(), key()
        user, _ = User.objects.get_or_create(username="bench", is_superuser=True, is_staff=True)
        client.force_login(user)
        for name, address in pages.items():
            stage.say(f"{count:,} runs: {name}")
            yield name, ask(client, address, **(headers if address.startswith(api) else {}))
    finally:
        teardown_test_environment()


def _write_runs(stage: Stage, workflow_id: UUID, count: int) -> None:
    """Runs that have ended, with their task runs and the triggers of those that started."""
    from jobs.models import TaskRun, Trigger, WorkflowRun, WorkflowVersion

    version = WorkflowVersion.objects.get(workflow_id=workflow_id)
    base = stage.value(
        "SELECT date_trunc('second', clock_timestamp()) - %(days)s * interval '1 day'", days=DAYS
    )
    begins = sql.SQL("({base}::timestamptz + {number} * (interval '1 day' * {days} / {count}))")

    def at(number: str) -> sql.Composed:
        return begins.format(base=base, number=sql.SQL(number), days=DAYS, count=count)

    def id_of(variant: str, run: str, task: str) -> sql.Composed:
        return sql.SQL(
            "(lpad(to_hex((extract(epoch FROM {at}) * 1000)::bigint), 12, '0') || '7000' || {variant}"
            " || lpad(to_hex({run}::bigint * 16 + {task}), 15, '0'))::uuid"
        ).format(at=at(run), variant=variant, run=sql.SQL(run), task=sql.SQL(task))

    run, task = f"(n / {TASKS})", f"(n % {TASKS})"
    failed = f"{run} % {ONE_IN_FAILED} = 0"
    done = sql.SQL("{} + interval '1 second'").format(at("n"))
    grow(
        stage,
        WorkflowRun,
        count,
        what="writing runs",
        id=id_of("8", "n", "15"),
        tenant=version.workflow.tenant_id,
        workflow=workflow_id,
        version=version.id,
        state=sql.SQL(f"CASE WHEN n % {ONE_IN_FAILED} = 0 THEN 'failed' ELSE 'succeeded' END"),
        halted=sql.SQL(f"n % {ONE_IN_FAILED} = 0"),
        scheduled_for=at("n"),
        created_at=at("n"),
        finished_at=done,
    )
    ended: dict[str, Any] = {
        "id": id_of("9", run, task),
        "finished_at": sql.SQL("{} + interval '1 second'").format(at(run)),
    }
    grow(
        stage,
        TaskRun,
        count * TASKS,
        what="writing their tasks",
        run=id_of("8", run, "15"),
        task=sql.SQL(task),
        undecided=0,
        ready_at=at(run),
        state=sql.SQL(
            f"CASE WHEN {failed} AND {task} = {FAILED_AT} THEN 'failed'"
            f" WHEN {failed} AND {task} > {FAILED_AT} THEN 'skipped' ELSE 'succeeded' END"
        ),
        reason=sql.SQL(f"CASE WHEN {failed} AND {task} > {FAILED_AT} THEN 'upstream' ELSE '' END"),
        **ended,
    )
    grow(
        stage,
        Trigger,
        count * TASKS,
        what="writing their triggers",
        source=f"JOIN jobs_workflowtask k ON k.version_id = '{version.id}' AND k.number = {task}"
        f" WHERE NOT ({failed} AND {task} > {FAILED_AT})",
        job=sql.SQL("k.job_id"),
        tenant=version.workflow.tenant_id,
        job_type="noop",
        job_version=1,
        origin="workflow",
        scheduled_for=at(run),
        due_at=at(run),
        state=sql.SQL(f"CASE WHEN {failed} AND {task} = {FAILED_AT} THEN 'dead' ELSE 'succeeded' END"),
        reason=sql.SQL(f"CASE WHEN {failed} AND {task} = {FAILED_AT} THEN 'exhausted' ELSE '' END"),
        priority=2,
        idempotency_key=sql.SQL("'workflow-run:' || n"),
        fence=1,
        attempt_count=1,
        worker="celery@bench",
        created_at=at(run),
        queued_at=at(run),
        started_at=at(run),
        workflow_run_id=id_of("8", run, "15"),
        **ended,
    )
