"""The leader's step that archives history: each partition past retention is written, and only then dropped.

It has a thread of its own, as an object store may take long. After any failure the partition stays, the step is tried
again, and its failures raise the alert of all steps. A leader that dies leaves no archive or a whole one. If it had not
dropped the partition yet, the next leader archives the partition once more, beside the first archive.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from jobs.engine.steps.step import Step
from jobs.store import archive, partitions
from jobs.telemetry import get_logger
from tenants.clock import database_now

log = get_logger()
EVERY_SECONDS = 60.0
#: The pause between pages: a beat has more to do.
AGAIN_SECONDS = 0.05
#: Time for one page of rows, or to count the rows of a partition.
BUDGET = timedelta(minutes=1)


class Archivist:
    """Remembers its present partition, and how far it has come."""

    def __init__(self, url: str, *, retention: timedelta) -> None:
        self._url, self._retention = url, retention
        self._at_hand: Iterator[int] | None = None
        self.step = Step("archive", self._go_on, every=EVERY_SECONDS, again=AGAIN_SECONDS, budget=BUDGET)

    def _go_on(self, _: Any) -> bool:
        """Archive one more page. Returns whether there is more to do at once."""
        if self._at_hand is None:
            self._at_hand = self._archive()
        try:
            return bool(next(self._at_hand))
        except StopIteration:
            self._at_hand = None
            return False
        except BaseException:
            self._at_hand = None
            raise

    def _archive(self) -> Iterator[int]:
        """Yields 0 where the step must rest first."""
        before = database_now() - self._retention
        past = [each for of in partitions.HISTORY for each in partitions.past(of, before=before)]
        if not past:
            return
        place = archive.Place(self._url)
        for partition in past:
            began = time.monotonic()
            manifest = yield from archive.write(partition, place)
            log.info(
                "partition archived",
                name=manifest.name,
                rows=manifest.rows,
                bytes=manifest.size,
                seconds=round(time.monotonic() - began, 1),
            )
            if not archive.is_whole(manifest):
                log.warning("partition changed while it was archived, and will be again", name=manifest.name)
                return
            while not partitions.drop_one(partition):
                yield 0
            log.info("partition dropped", name=partition.name)
            yield 1
