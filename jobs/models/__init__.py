"""Tables, CHECKs and indexes. No behaviour: state is written by ``jobs.store`` alone."""

from jobs.models.attempt import Attempt
from jobs.models.calls.answer import Answer
from jobs.models.calls.operation import Operation
from jobs.models.feed.change import Change
from jobs.models.feed.checkpoint import TrailCheckpoint, TrailHead
from jobs.models.feed.event import Event
from jobs.models.feed.reader import FeedReader
from jobs.models.history import CatchUp, Effect, JobVersion, SkippedRange
from jobs.models.job import Job, JobLabel
from jobs.models.lease import Lease, ZoneRules
from jobs.models.queue import Message, PullType, Queue
from jobs.models.tally import AnswerTally, JobTally
from jobs.models.trigger import Origin, Trigger
from jobs.models.worker import Clock, Worker

__all__ = (
    "Answer",
    "AnswerTally",
    "Attempt",
    "CatchUp",
    "Change",
    "Clock",
    "Effect",
    "Event",
    "FeedReader",
    "Job",
    "JobLabel",
    "JobTally",
    "JobVersion",
    "Lease",
    "Message",
    "Operation",
    "Origin",
    "PullType",
    "Queue",
    "SkippedRange",
    "TrailCheckpoint",
    "TrailHead",
    "Trigger",
    "Worker",
    "ZoneRules",
)
