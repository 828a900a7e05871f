"""The reference worker of ``examples/`` as a process of the stage: it runs the type it shares with Celery's workers.

Its handler does the same as ``chaos.load.handlers.shared``, without anything of Carillon:
``python -m chaos.load.pull_worker`` with ``CARILLON_URL`` and ``CARILLON_API_KEY``.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from chaos.load.reports import report

SHARED = "chaos.shared"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pull_worker.py"


def shared(work: dict[str, Any], _still_ours: Callable[[], bool]) -> None:
    """Tell the receiver, which takes as long as the job asks for; raises when it answers with an error."""
    report(
        work["payload"]["url"],
        job_id=work["job_id"],
        trigger_id=work["trigger_id"],
        scheduled_for=work["scheduled_for"],
        attempt=work["attempt_number"],
        fence=work["fence"],
        execution_id=work["attempt_id"],
        key=work["idempotency_key"],
    )


def reference_worker() -> ModuleType:
    """The example, with the handler of this module in place of its own."""
    spec = importlib.util.spec_from_file_location("pull_worker", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HANDLERS = {SHARED: shared}  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    reference_worker().main()
