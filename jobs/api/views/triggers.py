"""``/triggers`` and ``/dead-letters``."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import triggers as actions
from jobs.actions.triggers import find_trigger
from jobs.api import examples
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import HISTORY, Many, endpoint, fields_of
from jobs.api.views.base import Endpoint
from jobs.models import Attempt, Trigger
from jobs.models.firings.trigger import DEAD_LETTERS
from jobs.selection.filters import DeadLetterFilter, TriggerFilter
from jobs.selection.walks import dead_letters
from jobs.shapes.history import AttemptShape, DismissCount, OneTrigger, ReplayCount, TriggerShape
from jobs.shapes.operations import Dismissal, NamedDeadLetters, Replay
from jobs.store.effects import duplicates_prevented
from jobs.telemetry.traces import w3c


class TriggersView(Endpoint):
    of_history = True
    queryset = Trigger.objects.none()
    shows = TriggerShape
    filterset_class = TriggerFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List triggers, newest first",
        responses={200: Many(TriggerShape)},
        parameters=[fields_of(TriggerShape), *HISTORY],
        operation_id="triggers_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Trigger.objects.filter(tenant=self.tenant))


class TriggerView(Endpoint):
    shows = OneTrigger

    @endpoint(
        "Read a trigger",
        responses={200: OneTrigger},
        problems=(404,),
        parameters=[fields_of(OneTrigger)],
        operation_id="triggers_read",
    )
    def get(self, request: Request, trigger_id: UUID) -> Response:
        trigger = find_trigger(tenant=self.tenant, trigger_id=trigger_id)
        trace = w3c.recall(trigger.trace or "")
        told = {
            "duplicates_prevented": duplicates_prevented(trigger.id),
            "trace_id": trace.trace_id if trace is not None else None,
        }
        return Response(self.of_interest(OneTrigger.of(trigger, **told)))


class TriggerAttemptsView(Endpoint):
    of_history = True
    queryset = Attempt.objects.none()
    shows = AttemptShape
    pagination_class = IdCursorPagination

    @endpoint(
        "List a trigger's attempts, newest first",
        responses={200: Many(AttemptShape)},
        parameters=[fields_of(AttemptShape), *HISTORY],
        problems=(404,),
        operation_id="triggers_attempts",
    )
    def get(self, request: Request, trigger_id: UUID) -> Response:
        trigger = find_trigger(tenant=self.tenant, trigger_id=trigger_id)
        return self.page_of(Attempt.objects.filter(trigger=trigger))


class TriggerCancelView(Endpoint):
    @endpoint(
        "Cancel a waiting trigger, or ask a running one to stop",
        responses={200: TriggerShape},
        problems=(404, 409),
        operation_id="triggers_cancel",
    )
    def post(self, request: Request, trigger_id: UUID) -> Response:
        self.refuse_body()
        cancelled = actions.cancel_trigger(tenant=self.tenant, trigger_id=trigger_id)
        return Response(TriggerShape.of(cancelled))


class TriggerReplayView(Endpoint):
    @endpoint(
        "Run an ended trigger again, under its old idempotency key",
        responses={200: TriggerShape},
        problems=(404, 409),
        operation_id="triggers_replay",
    )
    def post(self, request: Request, trigger_id: UUID) -> Response:
        self.refuse_body()
        replayed = actions.replay_trigger(tenant=self.tenant, trigger_id=trigger_id)
        return Response(TriggerShape.of(replayed))


class DeadLettersView(Endpoint):
    queryset = Trigger.objects.none()
    shows = TriggerShape
    filterset_class = DeadLetterFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List dead letters, newest first",
        responses={200: Many(TriggerShape)},
        parameters=[fields_of(TriggerShape)],
        operation_id="dead_letters_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Trigger.objects.filter(DEAD_LETTERS, tenant=self.tenant))


class DeadLettersDismissView(Endpoint):
    @endpoint(
        "Dismiss dead letters with a note: the named ones, or all that match a filter",
        request=Dismissal,
        responses={200: DismissCount},
        examples=examples.DISMISS,
        operation_id="dead_letters_dismiss",
    )
    def post(self, request: Request) -> Response:
        sent = Dismissal.read(self.body()).root
        if isinstance(sent, NamedDeadLetters):
            ids = actions.dismiss_triggers(tenant=self.tenant, trigger_ids=sent.ids, note=sent.note)
            dismissed = len(ids)
        else:
            matching = dead_letters(sent.filter, tenant=self.tenant)
            dismissed = actions.dismiss_dead_letters(
                tenant=self.tenant, queryset=matching, note=sent.note, chosen={"filter": sent.filter}
            )
        return Response(DismissCount.of({"dismissed": dismissed}))


class DeadLettersReplayView(Endpoint):
    @endpoint(
        "Replay dead letters: the named ones, or all that match a filter",
        request=Replay,
        responses={200: ReplayCount},
        examples=examples.REPLAY,
        operation_id="dead_letters_replay",
    )
    def post(self, request: Request) -> Response:
        sent = Replay.read(self.body()).root
        if isinstance(sent, NamedDeadLetters):
            replayed = len(actions.replay_triggers(tenant=self.tenant, trigger_ids=sent.ids))
        else:
            matching = dead_letters(sent.filter, tenant=self.tenant)
            replayed = actions.replay_dead_letters(
                tenant=self.tenant, queryset=matching, chosen={"filter": sent.filter}
            )
        return Response(ReplayCount.of({"replayed": replayed}))
