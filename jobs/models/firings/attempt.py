"""Attempt: one try at one trigger, by one worker, under one fence (DESIGN §5)."""

from django.db import models
from django.db.models.functions import Coalesce

from jobs.core.states import AttemptState
from jobs.models.fields import choices, new_id
from jobs.models.firings.trigger import Trigger


class _WithoutOutput(models.Manager["Attempt"]):
    """Rows come with the size of their output in bytes, not with the output: a page of outputs would be megabytes."""

    def get_queryset(self) -> models.QuerySet["Attempt"]:
        size = Coalesce(models.Func("output", function="octet_length", output_field=models.IntegerField()), 0)
        return super().get_queryset().defer("output").annotate(output_bytes=size)


class Attempt(models.Model):
    """Append-mostly. The table is partitioned by ``started_at`` (migration 0003), so retention drops partitions.

    Django sees ``id`` as the key; in the database the key is ``(id, started_at)``, as partitioning demands.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    trigger = models.ForeignKey(
        Trigger, on_delete=models.DO_NOTHING, related_name="attempts", db_constraint=False, db_index=False
    )
    job_id = models.UUIDField()
    tenant_id = models.BigIntegerField()
    number = models.PositiveIntegerField()
    fence = models.PositiveIntegerField()
    worker = models.CharField(max_length=200)
    celery_task_id = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=16, choices=choices(AttemptState))
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    duration = models.DurationField(null=True, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_class = models.CharField(max_length=200, blank=True)
    error_message = models.CharField(max_length=2000, blank=True)
    traceback = models.TextField(blank=True)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    response_excerpt = models.TextField(blank=True)
    #: How many other triggers its worker claimed together with it.
    claimed_with = models.PositiveIntegerField(default=0, db_default=0)
    #: The output of its handler (``telemetry.output``); null: none. A row that was read also has ``output_bytes``.
    output = models.TextField(null=True, editable=False)

    objects = _WithoutOutput()

    class Meta:
        managed = False
        db_table = "jobs_attempt"

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.state}"
