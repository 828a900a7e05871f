"""Tables, CHECKs and indexes. No behaviour: state is written by ``jobs.store`` alone."""

from jobs.models.answer import Answer
from jobs.models.event import Event, FeedMark, FeedReader
from jobs.models.firings.attempt import Attempt
from jobs.models.firings.catch_up import CatchUp, SkippedRange
from jobs.models.firings.effect import Effect
from jobs.models.firings.trigger import Origin, Trigger
from jobs.models.firings.version import JobVersion
from jobs.models.job import Job, JobLabel
from jobs.models.levers import Breaker, Installation, TargetRule
from jobs.models.operation import Operation
from jobs.models.process import Clock, Lease, Rate, Worker, ZoneRules
from jobs.models.pull import PullType
from jobs.models.queue import Message, Queue
from jobs.models.tally import (
    ActivityHour,
    ActivityMinute,
    ActivityReport,
    ActivityTotal,
    AnswerTally,
    JobTally,
    KeptForecast,
    MetricTenant,
    OwnTotal,
    QueueSample,
)
from jobs.models.trail import Change, TrailCheckpoint, TrailHead
from jobs.models.workflows.definition import Workflow, WorkflowEdge, WorkflowTask, WorkflowVersion
from jobs.models.workflows.run import DueCancel, TaskRun, WorkflowRun

__all__ = (
    "ActivityHour",
    "ActivityMinute",
    "ActivityReport",
    "ActivityTotal",
    "Answer",
    "AnswerTally",
    "Attempt",
    "Breaker",
    "CatchUp",
    "Change",
    "Clock",
    "DueCancel",
    "Effect",
    "Event",
    "FeedMark",
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
    "Rate",
    "SkippedRange",
    "TargetRule",
    "TaskRun",
    "TrailCheckpoint",
    "TrailHead",
    "Trigger",
    "Worker",
    "Workflow",
    "WorkflowEdge",
    "WorkflowRun",
    "WorkflowTask",
    "WorkflowVersion",
    "ZoneRules",
)
