"""``If-Match`` and ``If-None-Match`` on jobs: act on the version that was read, or not at all (RFC 9110 §13).

Only the header is read here. The action checks whether it holds, under the job's lock, in the transaction that writes:
of two callers that name the same version, one succeeds.
"""

import re
from dataclasses import dataclass

from rest_framework.exceptions import APIException
from rest_framework.request import Request

from jobs.actions.jobs import EditedMeanwhile
from jobs.core.errors import InvalidInput
from tenants.models import Tenant

_DEMANDED = ("PUT", "PATCH", "DELETE")


class PreconditionRequired(APIException):
    status_code = 428
    default_detail = (
        'Your tenant requires If-Match here: send the ETag of the job as you read it, such as "3".'
    )


@dataclass(frozen=True, slots=True)
class Precondition:
    """The condition of a write: the job's ``version`` (None: any), and whether it ``exists`` (None: either)."""

    version: int | None = None
    exists: bool | None = None


def precondition(request: Request, *, tenant: Tenant) -> Precondition:
    """The condition that the request's headers demand.

    Raises ``EditedMeanwhile`` for an ``If-Match`` that no job can match, ``InvalidInput`` for headers that are not
    understood, ``PreconditionRequired`` if the tenant is strict and there is no ``If-Match``.
    """
    if_match, if_none_match = (request.headers.get(name) for name in ("If-Match", "If-None-Match"))
    if if_match is not None and if_none_match is not None:
        raise InvalidInput({"If-None-Match": "Contradicts If-Match; send one of them."})
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise InvalidInput(
                {"If-None-Match": "Must be *, which means: only if the job does not exist yet."}
            )
        return Precondition(exists=False)
    if if_match is None:
        if tenant.require_if_match and request.method in _DEMANDED:
            raise PreconditionRequired
        return Precondition()
    if if_match.strip() == "*":
        return Precondition(exists=True)
    match = re.fullmatch(r'"([0-9]{1,9})"', if_match.strip())
    if match is None:
        raise EditedMeanwhile('If-Match must be the ETag of the job, such as "3".')
    return Precondition(version=int(match[1]), exists=True)


def expected_version(request: Request, *, tenant: Tenant) -> int | None:
    """The version that a write to an existing job must find; None when any will do. Raises as ``precondition`` does."""
    demanded = precondition(request, tenant=tenant)
    if demanded.exists is False:
        raise EditedMeanwhile("If-None-Match: * requires that the job does not exist.")
    return demanded.version
