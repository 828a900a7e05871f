"""Tables, CHECKs and indexes. No behaviour: state is written by ``jobs.store`` alone."""

from jobs.models.answer import Answer
from jobs.models.attempt import Attempt
from jobs.models.event import Event, FeedReader
from jobs.models.history import CatchUp, Effect, JobVersion, SkippedRange
from jobs.models.job import Job, JobLabel
from jobs.models.operation import Operation
from jobs.models.process import Clock, Lease, Worker, ZoneRules
from jobs.models.queue import Breaker, Installation, Message, PullType, Queue, TargetRule
from jobs.models.tally import (
    ActivityHour,
    ActivityMinute,
    ActivityTotal,
    AnswerTally,
    JobTally,
    KeptForecast,
    MetricTenant,
    OwnTotal,
    QueueSample,
)
from jobs.models.trail import Change, TrailCheckpoint, TrailHead
from jobs.models.trigger import Origin, Trigger

__all__ = (
    "ActivityHour",
    "ActivityMinute",
    "ActivityTotal",
    "Answer",
    "AnswerTally",
    "Attempt",
    "Breaker",
    "CatchUp",
    "Change",
    "Clock",
    "Effect",
    "Event",
    "FeedReader",
    "Installation",
    "Job",
    "JobLabel",
    "JobTally",
    "JobVersion",
    "KeptForecast",
    "Lease",
    "Message",
    "MetricTenant",
    "Operation",
    "Origin",
    "OwnTotal",
    "PullType",
    "Queue",
    "QueueSample",
    "SkippedRange",
    "TargetRule",
    "TrailCheckpoint",
    "TrailHead",
    "Trigger",
    "Worker",
    "ZoneRules",
)
