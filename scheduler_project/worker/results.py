"""The result backend: django-celery-results, written at most once per message and in one statement.

The stock backend upserts without a condition, so a stale duplicate of a message would overwrite the first result. It
also takes four statements. Reading is left to the stock backend.
"""

from typing import Any

from django_celery_results.backends import DatabaseBackend

from jobs.store import db, execution

PATIENCE_SECONDS = 5.0
#: The usual result of a message of one trigger. The attempt already says everything, also the Celery task's id.
NOTHING_TO_ADD = {"succeeded": 1}


class SummaryBackend(DatabaseBackend):
    """Keeps a batch's summary under its Celery task id, unless it is the success of a single trigger."""

    def _store_result(
        self,
        task_id: str,
        result: Any,
        status: str,
        traceback: str | None = None,
        request: Any = None,
        using: str | None = None,
    ) -> Any:
        if result == NOTHING_TO_ADD:
            return result
        db.until_connected(
            lambda: execution.store_result(
                task_id=task_id,
                task_name=getattr(request, "task", None),
                worker=getattr(request, "hostname", None),
                status=status,
                result=result,
                traceback=traceback.replace("\0", "") if traceback else None,
                task_args=getattr(request, "argsrepr", None),
            ),
            patience_seconds=PATIENCE_SECONDS,
            what="store result",
        )
        return result
