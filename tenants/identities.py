"""Operators by the claims of an identity provider: by the issuer and the subject, and nothing else, once linked.

An operator who is not linked yet is found by the e-mail address, if the provider has verified it, and one operator
alone has it: the first sign-in links them. A sign-in makes no new operator, and no address leads to an operator who is
linked to another subject: a mailbox that changes hands opens nothing.
"""

from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from tenants.models import OperatorIdentity

#: OpenID Connect's own bound.
MAX_SUBJECT = 255


def operator_of(*, issuer: str, claims: dict[str, Any]) -> User | None:
    """The operator that ``claims`` of a verified token mean, linked by now; None: no operator who may sign in."""
    subject = str(claims.get("sub", ""))
    if not 1 <= len(subject) <= MAX_SUBJECT or "\0" in subject:
        return None
    rows = OperatorIdentity.objects.filter(issuer=issuer, subject=subject).select_related("operator")
    known = rows.first()
    if known is not None:
        return known.operator if known.operator.is_active and known.operator.is_staff else None
    operator = _by_email(claims)
    return operator if operator is not None and _link(operator, issuer, subject) else None


def _by_email(claims: dict[str, Any]) -> User | None:
    """The one operator with that verified address, if not linked. Letters beyond ASCII may look alike, or fold."""
    email = claims.get("email")
    if claims.get("email_verified") not in (True, "true") or not isinstance(email, str):
        return None
    if not email or not email.isascii() or "\0" in email:
        return None
    found = list(User.objects.filter(email__iexact=email, is_active=True, is_staff=True)[:2])
    if len(found) != 1 or OperatorIdentity.objects.filter(operator=found[0]).exists():
        return None
    return found[0]


def _link(operator: User, issuer: str, subject: str) -> bool:
    try:
        with transaction.atomic():
            OperatorIdentity.objects.create(operator=operator, issuer=issuer, subject=subject)
    except IntegrityError:  # linked to another a moment ago
        return False
    return True
