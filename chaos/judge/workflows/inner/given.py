"""The inputs of inner runs: the number of the outer run, and results of tasks before."""

from collections.abc import Iterator

from chaos.judge.verdict import Breach
from chaos.judge.workflows.told import Told
from chaos.judge.workflows.values import wrong


def given(each: Told) -> Iterator[Breach]:
    """Inputs that are not the results of the tasks before, or have other values than the task gives."""
    for task, inner in each.inner.items():
        gives = each.workflow.tasks[task]["gives"]
        for one in inner:
            if not one.seen:
                continue  # its requests tell
            found = one.seen.input
            if found.get("number") != each.run.number or found.keys() != {"number", *gives}:
                detail = f"run {one.run.id} of it began with {found}, not with number {each.run.number} and {gives}"
                yield each.breach("value", one.begins_at, task, detail)
                continue
            for name in gives:
                if why := wrong(each, name, found[name], one.begins_at):
                    detail = f"run {one.run.id} of it began with {found[name]} of {name}, {why}"
                    yield each.breach("value", one.begins_at, task, detail)
