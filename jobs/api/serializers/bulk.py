"""Many at once: jobs to be created together, and operations on all that match a filter."""

from rest_framework import serializers

from jobs.actions.bulk.create import MOST_JOBS
from jobs.actions.labels import SELECTOR
from jobs.api.serializers.history import DeadLetterFilterSerializer
from jobs.api.serializers.jobs import PRIORITIES, DefinitionSerializer
from jobs.api.serializers.shared import ProblemSerializer, Shape, Variants, line, words
from jobs.core.states import JobStatus, TriggerState
from jobs.models.calls.operation import JOB_VERBS, TRIGGER_VERBS

VERBS = (*JOB_VERBS, *TRIGGER_VERBS)


class BulkSerializer(Shape):
    jobs = serializers.ListField(
        child=DefinitionSerializer(), min_length=1, max_length=MOST_JOBS, help_text="1 to 1,000 definitions."
    )
    all_or_nothing = serializers.BooleanField(
        required=False, help_text="Refuse all of them if one has to be refused."
    )
    dry_run = serializers.BooleanField(
        required=False, help_text="Do everything but keep it: the answer is what it would be, without ids."
    )


class BulkItemSerializer(Shape):
    """What became of one definition."""

    index = serializers.IntegerField(help_text="Its place in jobs, from 0.")
    status = serializers.IntegerField(help_text="201, or that of the problem.")
    id = serializers.UUIDField(required=False)
    name = serializers.CharField(required=False)
    version = serializers.IntegerField(required=False)
    next_fire_at = serializers.DateTimeField(required=False, allow_null=True)
    problem = ProblemSerializer(required=False)


class BulkAnswerSerializer(Shape):
    created = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = BulkItemSerializer(many=True, help_text="One for each definition, in order.")


class JobsFilterSerializer(Shape):
    """As in a query of GET /jobs."""

    status = words(JobStatus, required=False)
    job_type = serializers.CharField(required=False, max_length=63)
    priority = words(PRIORITIES, required=False)
    name = line(200, required=False)
    name_prefix = line(200, required=False)
    labels = serializers.RegexField(SELECTOR, required=False)
    created_after = serializers.DateTimeField(required=False)
    created_before = serializers.DateTimeField(required=False)
    updated_after = serializers.DateTimeField(required=False)
    updated_before = serializers.DateTimeField(required=False)


class TriggersFilterSerializer(DeadLetterFilterSerializer):
    """As in a query of GET /triggers; dead ones unless a state is named."""

    state = words(TriggerState, required=False)


class OfJobsSerializer(Shape):
    verb = words(JOB_VERBS, help_text="What is done to each job.")
    filter = JobsFilterSerializer(help_text="{} means all of them.")
    dry_run = serializers.BooleanField(required=False, help_text="Only count; nothing is done.")


class OfTriggersSerializer(Shape):
    verb = words(TRIGGER_VERBS, help_text="What is done to each trigger.")
    filter = TriggersFilterSerializer(help_text="{} means all dead ones.")
    dry_run = serializers.BooleanField(required=False, help_text="Only count; nothing is done.")


class OperationRequestSerializer(Variants):
    """Pause, resume, cancel and delete act on jobs, replay on triggers."""

    variants = (OfJobsSerializer, OfTriggersSerializer)


class MatchingSerializer(Shape):
    matching = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False: there are more rows than a dry run looks at (100,000)."
    )


class RefusalSerializer(Shape):
    id = serializers.UUIDField()
    detail = serializers.CharField()


class OperationSerializer(Shape):
    """Rendered by ``jobs.actions.bulk.operations.representation``."""

    id = serializers.UUIDField()
    verb = words(VERBS)
    filter = serializers.DictField(child=serializers.CharField())
    status = words(("running", "finished", "cancelled"))
    done = serializers.IntegerField(
        help_text="Jobs or triggers it was done to; also those that were so already."
    )
    refused = serializers.IntegerField(help_text="Those to which it could not be done.")
    refusals = RefusalSerializer(many=True, help_text="The first of them, at most 20, with why.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When it last went on.")
    finished_at = serializers.DateTimeField(allow_null=True)
