"""The console's pages of workflows and runs, as tests read them."""

import re
from typing import Any

from django.test import Client
from django.urls import reverse

from jobs.models import WorkflowRun

RUN, WORKFLOW = "jobs_workflowrun", "jobs_workflow"


def shown(client: Client, page: str, row: Any, query: str = "") -> str:
    answer = client.get(reverse(f"admin:{page}_change", args=[row.pk]) + query)
    assert answer.status_code == 200
    return str(answer.content.decode())


def task_rows(text: str) -> dict[str, dict[str, str]]:
    """task -> the data that its row holds for the graph."""
    found = re.findall(r"<tr[^>]* data-task=\"(\w+)\"([^>]*)>", text)
    return {key: dict(re.findall(r'data-(\w+)="([^"]*)"', rest)) for key, rest in found}


def fragment(client: Client, run: WorkflowRun, query: str = "") -> Any:
    return client.get(reverse("workflow_run_progress", args=[run.id]) + query)


def buttons(client: Client, run: WorkflowRun) -> set[str]:
    text = shown(client, RUN, run)
    return {
        verb
        for verb in ("pause", "resume", "cancel", "retry")
        if reverse(f"admin:{RUN}_{verb}", args=[run.id]) in text
    }
