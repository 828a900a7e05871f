"""``schedule`` of a job: when it fires. Its type says which fields it has.

``jobs.core.schedule`` decides what a schedule means. ``jobs.actions.schedules`` asks whether it still fires, because
that depends on the database's clock.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from jobs.core.cron import parse_cron
from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST, TICK, instant_text
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.schedule import Schedule, ScheduleType, next_fire
from jobs.core.timezones import canonical_timezone
from jobs.models import Job
from jobs.shapes.base import OneOf, Shape, changes_of
from jobs.shapes.terms import Between, Instant, Text, here, seconds


class _Schedule(Shape):
    drops_null = True
    type: str
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    jitter_seconds: Annotated[float, Between(0, 86_400)] = 0
    """Limit of the fixed delay that all firings of the job get. For type interval it is less than every_seconds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            raise InvalidInput({"ends_at": "Must be later than starts_at."})
        self._check_own()
        return self

    def _check_own(self) -> None:
        """Rules across the fields of one type. Raises ``InvalidInput``."""

    def at(self, anchor: datetime) -> Schedule:
        """The schedule that the engine computes with, for a job created at ``anchor``."""
        own = {name: getattr(self, name) for name in OWN[ScheduleType(self.type)] if name != "every_seconds"}
        every = getattr(self, "every_seconds", None)
        return Schedule(
            type=ScheduleType(self.type),
            every=every and timedelta(seconds=every),
            anchor=anchor,
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            **own,
        )


class CronSchedule(_Schedule):
    type: Literal["cron"]
    cron_dialect: CronDialect = CronDialect.UNIX
    """Dialect of the cron expression. quartz has six fields, seconds first, and 1 = Sunday."""
    cron: Annotated[str, Text(100)]
    """Cron expression: five fields, or a macro such as @daily."""
    timezone: Annotated[str, Text(64), AfterValidator(here(canonical_timezone))] = "UTC"
    """IANA name of the time zone of the cron expression; UTC by default."""
    dst_policy: DstPolicy = DstPolicy.VIXIE
    """Rule for firings of a cron schedule while the clocks change; vixie by default."""

    @field_validator("cron")
    @classmethod
    def _parse(cls, text: str, info: ValidationInfo) -> str:
        dialect = info.data.get("cron_dialect")
        if dialect is None:
            return text  # the dialect is wrong, and its fault is told
        return here(lambda given: parse_cron(given, dialect).text)(text)

    def _check_own(self) -> None:
        if self.starts_at is None or self.ends_at is None:
            return
        if next_fire(self.at(self.starts_at), after=self.starts_at - TICK) is None:
            raise InvalidInput(
                {"ends_at": "The expression names no time between starts_at and ends_at; move one of them."}
            )


class IntervalSchedule(_Schedule):
    type: Literal["interval"]
    every_seconds: Annotated[float, Between(1, 366 * 86_400)]
    """Seconds from one firing to the next, for type interval."""

    def _check_own(self) -> None:
        if self.jitter_seconds >= self.every_seconds:
            wrong = "Must be shorter than every_seconds, or firings would overtake each other."
            raise InvalidInput({"jitter_seconds": wrong})


class OnceSchedule(_Schedule):
    type: Literal["once"]
    run_at: Instant
    """When the job fires, for type once."""

    def _check_own(self) -> None:
        if not (self.starts_at or EARLIEST) <= self.run_at <= (self.ends_at or LATEST):
            raise InvalidInput({"run_at": "Must lie between starts_at and ends_at, or it never fires."})


class ImmediateSchedule(_Schedule):
    type: Literal["immediate"]


_SHAPES: dict[ScheduleType, type[_Schedule]] = {
    ScheduleType.CRON: CronSchedule,
    ScheduleType.INTERVAL: IntervalSchedule,
    ScheduleType.ONCE: OnceSchedule,
    ScheduleType.IMMEDIATE: ImmediateSchedule,
}
ONE_TIME = (ScheduleType.ONCE, ScheduleType.IMMEDIATE)
#: Fields of every schedule, and those of one type alone; the field with the type's name comes first.
COMMON = tuple(name for name in _Schedule.model_fields if name != "type")
OWN = {
    kind: tuple(
        sorted(
            shape.model_fields.keys() - _Schedule.model_fields.keys(), key=lambda name: (name != kind, name)
        )
    )
    for kind, shape in _SHAPES.items()
}
for _kind, _shape in _SHAPES.items():
    _shape.hints = {
        name: f"A schedule of type {_kind} needs it."
        if name in OWN[_kind]
        else f"Does not belong to a schedule of type {_kind}; leave it out or change the type."
        for names in OWN.values()
        for name in names
    }


class ScheduleShape(
    OneOf[
        Annotated[
            CronSchedule | IntervalSchedule | OnceSchedule | ImmediateSchedule, Field(discriminator="type")
        ]
    ]
):
    """Its type says which fields it has."""

    drops_null = True
    hints = {
        "": 'Must be an object such as {"type": "cron", "cron": "0 2 * * *"}.',
        "type": f"Is required: one of {', '.join(ScheduleType)}.",
    }

    def at(self, anchor: datetime) -> Schedule:
        """The schedule that the engine computes with, for a job created at ``anchor``."""
        return self.root.at(anchor)

    def columns(self) -> dict[str, Any]:
        """The columns of ``Job`` that hold it."""
        schedule = self.at(EARLIEST)
        return {
            "schedule_type": schedule.type.value,
            "cron_expression": schedule.cron or "",
            "timezone": schedule.timezone,
            "interval": schedule.every,
            "run_at": schedule.run_at,
            "starts_at": schedule.starts_at,
            "ends_at": schedule.ends_at,
            "dst_policy": str(schedule.dst_policy),
            "cron_dialect": str(schedule.cron_dialect),
            "jitter": timedelta(seconds=self.root.jitter_seconds),
        }


ScheduleChanges = changes_of(
    "ScheduleChanges",
    *_SHAPES.values(),
    doc="Any part of a schedule; without a type, of the one the job has.",
    type=ScheduleType,
)


def shown(job: Job) -> dict[str, Any]:
    """The schedule of ``job`` in its shape."""
    values = {
        "type": job.schedule_type,
        "cron": job.cron_expression,
        "timezone": job.timezone,
        "dst_policy": job.dst_policy,
        "cron_dialect": job.cron_dialect,
        "every_seconds": job.interval and seconds(job.interval),
        "run_at": instant_text(job.run_at),
        "starts_at": instant_text(job.starts_at),
        "ends_at": instant_text(job.ends_at),
        "jitter_seconds": seconds(job.jitter),
    }
    return {name: values[name] for name in ("type", *OWN[ScheduleType(job.schedule_type)], *COMMON)}
