"""The audit trail (docs/audit.md): Change, who changed what, and its signed checkpoints.

It records changes of the things that people decide on: definitions, limits, credentials, operators.
"""

from django.db import models

from jobs.models.fields import TransactionId


class Change(models.Model):
    """Appended in the transaction that made the change. Database triggers of the recorded tables append it
    (migrations 0006, 0007). For changes of Carillon's triggers the action itself appends it (``store.trail.note``).

    ``changes`` maps columns to ``[before, after]``, or to null where values are not kept: secrets, values that may hold
    secrets, and long values. ``tenant_id`` is null for operators and groups. Its place is ``(xid, id)``, as an event's
    is.
    """

    class Kind(models.TextChoices):
        JOB = "job"
        JOB_TYPE = "job_type"
        TENANT = "tenant"
        API_KEY = "api_key", "API key"
        SECRET = "secret"  # noqa: S105
        TRIGGER = "trigger"
        OPERATION = "operation"
        USER = "user", "operator"
        GROUP = "group"
        INSTALLATION = "installation"
        TARGET = "target"
        WORKFLOW = "workflow"

    class Action(models.TextChoices):
        CREATED = "created"
        UPDATED = "updated"
        DELETED = "deleted"
        #: A job was fired now, beside its schedule.
        RUN = "run"
        #: For one trigger, or for many triggers of a tenant at once.
        REPLAYED = "replayed"
        CANCELLED = "cancelled"
        DISMISSED = "dismissed"
        #: For an operator of the console.
        SIGNED_IN = "signed_in"
        SIGNED_OUT = "signed_out"
        SIGN_IN_FAILED = "sign_in_failed"

    id = models.BigAutoField(primary_key=True)
    xid = TransactionId(db_default=models.Func(function="pg_current_xact_id"), editable=False)
    at = models.DateTimeField()
    tenant_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    object_id = models.CharField(max_length=64)
    name = models.CharField(max_length=200)
    action = models.CharField(max_length=16, choices=Action.choices)
    actor_kind = models.CharField(max_length=16)
    actor = models.CharField(max_length=200)
    changes = models.JSONField()

    class Meta:
        indexes = (
            # store/sql/trail.sql: page — a tenant's changes on from one.
            models.Index(
                fields=("tenant_id", "xid", "id"),
                condition=models.Q(tenant_id__isnull=False),
                name="change_of_tenant",
            ),
            # store/sql/trail.sql: page_of_object; also the admin's list of one object. The condition always holds. It
            # only keeps the planner from skipping through this index to find a tenant.
            models.Index(
                fields=("object_id", "xid", "id"),
                condition=models.Q(object_id__gt=""),
                name="change_of_object",
            ),
            # The admin's list of one actor, newest first.
            models.Index(fields=("actor", "-id"), name="change_by_actor"),
            # store/sql/chain.sql: next_range and digest; carillon_purge_trail.
            models.Index(fields=("xid",), name="change_in_order"),
            # The admin's lists of a tenant, a kind, a kind of actor and an action, newest first. The last three leave
            # out the changes that services make by the thousand. A list of changes to jobs, of changes by API keys or
            # of creations finds some rows wherever it looks.
            models.Index(
                fields=("tenant_id", "-id"),
                condition=models.Q(tenant_id__isnull=False),
                name="change_of_tenant_newest",
            ),
            models.Index(fields=("kind", "-id"), condition=~models.Q(kind="job"), name="change_of_kind"),
            models.Index(
                fields=("actor_kind", "-id"),
                condition=~models.Q(actor_kind="api_key"),
                name="change_by_actor_kind",
            ),
            models.Index(
                fields=("action", "-id"), condition=~models.Q(action="created"), name="change_of_action"
            ),
            # The admin's list of the last hour or week.
            models.Index(fields=("at",), name="change_at"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.action} by {self.actor}"


class TrailCheckpoint(models.Model):
    """The changes of transactions after ``after_xid`` up to ``upto_xid``, which were over when it was made.

    Rows are only appended. When its changes are past retention, the checkpoint stays as their stub.
    """

    number = models.BigIntegerField(primary_key=True)
    after_xid = TransactionId()
    upto_xid = TransactionId()
    changes = models.BigIntegerField()
    #: SHA-256 of the changes' SHA-256s, in their order.
    digest = models.CharField(max_length=64)
    last_at = models.DateTimeField()
    made_at = models.DateTimeField()
    #: The seal of the previous checkpoint; empty for the first.
    previous = models.CharField(max_length=64, blank=True)
    key_id = models.CharField(max_length=16)
    seal = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"checkpoint {self.number}"


class TrailHead(models.Model):
    """One row: the last checkpoint, signed. Without it a removal of the last checkpoints would go unnoticed."""

    id = models.SmallIntegerField(primary_key=True)
    number = models.BigIntegerField()
    upto_xid = TransactionId()
    last_seal = models.CharField(max_length=64, blank=True)
    key_id = models.CharField(max_length=16)
    seal = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"head at {self.number}"
