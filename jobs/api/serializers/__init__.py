"""The shapes of the API (DESIGN §10), for OpenAPI and for rendering triggers and attempts.

What is accepted is decided by ``jobs.actions`` alone: a serializer of a request here describes, it never checks.
"""

from jobs.api.serializers.bulk import (
    BulkAnswerSerializer,
    BulkSerializer,
    MatchingSerializer,
    OperationRequestSerializer,
    OperationSerializer,
)
from jobs.api.serializers.explain import (
    JobExplanationSerializer,
    TriggerExplanationSerializer,
)
from jobs.api.serializers.history import (
    AttemptSerializer,
    BackfillRequestSerializer,
    BackfillSerializer,
    ExtentSerializer,
    OneTriggerSerializer,
    ReplayedSerializer,
    ReplaySerializer,
    SkippedRangeSerializer,
    TriggerSerializer,
)
from jobs.api.serializers.jobs import (
    ChangesSerializer,
    DefinitionSerializer,
    JobSerializer,
    PreviewRequestSerializer,
    PreviewSerializer,
    ReplacementSerializer,
    RunSerializer,
    StatusSerializer,
)
from jobs.api.serializers.service import (
    JobTypesSerializer,
    TenantSerializer,
)
from jobs.api.serializers.shared import (
    ProblemSerializer,
)

__all__ = (
    "AttemptSerializer",
    "BackfillRequestSerializer",
    "BackfillSerializer",
    "BulkAnswerSerializer",
    "BulkSerializer",
    "ChangesSerializer",
    "DefinitionSerializer",
    "ExtentSerializer",
    "JobExplanationSerializer",
    "JobSerializer",
    "JobTypesSerializer",
    "MatchingSerializer",
    "OneTriggerSerializer",
    "OperationRequestSerializer",
    "OperationSerializer",
    "PreviewRequestSerializer",
    "PreviewSerializer",
    "ProblemSerializer",
    "ReplacementSerializer",
    "ReplaySerializer",
    "ReplayedSerializer",
    "RunSerializer",
    "SkippedRangeSerializer",
    "StatusSerializer",
    "TenantSerializer",
    "TriggerExplanationSerializer",
    "TriggerSerializer",
)
