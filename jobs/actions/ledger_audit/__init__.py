"""The ledger compared with the schedules: was every expected firing put on record, and nothing else?

It is independent of the materializer. ``expected`` says, from each job's timeline (``JobVersion``), which instants had
to fire. ``comparison`` compares the records with them: triggers, ranges of skipped firings, and unfinished catch-up.
Instants are counted (``jobs.core.calendar.timetable``), not walked: the count of a range is compared with a difference
of two counts, and an instant is looked at by itself only if it has a trigger or no record at all. ``chunks`` reads: the
triggers are streamed and jobs are taken a chunk at a time, each chunk from one snapshot of the database, so memory
stays flat and a running system may be audited. Nothing is written.

An entry of the timeline counts from just after its ``valid_from`` up to that of the next. While it says *active*, its
instants are expected. While it says *paused*, they are expected, too, because the end of a pause puts the firings that
fell due in it on record. Instants are only allowed, not demanded, from ``next_fire_at`` on while a job is paused or its
tenant suspended now. The same holds for instants that had been materialized ahead when a job was cancelled. Instants
are computed by today's zone database.

Firings asked for by hand stand beside the schedule: a run now names no instant of it, and a backfill may run firings
that a range of skipped firings counts already.
"""

from jobs.actions.ledger_audit.chunks import RETENTION_MARGIN, SETTLING, audit
from jobs.actions.ledger_audit.findings import Difference, JobAudit

__all__ = ("RETENTION_MARGIN", "SETTLING", "Difference", "JobAudit", "audit")
