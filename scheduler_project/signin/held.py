"""A sign-in whose password was right, but whose code is still missing: kept in a session that is not signed in yet.

It is over after a while. It is also over when the password or the operator's right to sign in has changed.
"""

import hmac
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.http import HttpRequest

from tenants.clock import database_now

#: The name in Django's session.
KEY = "held_sign_in"
LASTS_SECONDS = 600


class Held(NamedTuple):
    operator: Any
    #: The address that the sign-in leads to.
    then: str


def hold(request: HttpRequest, operator: Any, then: str) -> None:
    """Let ``operator``, whose password was right, sign in with a code."""
    # A person that knew the session's key before must not be able to give the code in this session.
    request.session.cycle_key()
    request.session[KEY] = {
        "operator": operator.pk,
        "backend": operator.backend,
        "password": operator.get_session_auth_hash(),
        "until": database_now().timestamp() + LASTS_SECONDS,
        "then": then,
    }


def held_sign_in(request: HttpRequest) -> Held | None:
    """The sign-in that waits for its code; None: there is none, or it is over."""
    kept = request.session.get(KEY)
    if not kept or kept["until"] < database_now().timestamp():
        return None
    operator: Any = get_user_model()._default_manager.filter(pk=kept["operator"], is_active=True).first()
    if operator is None or not hmac.compare_digest(operator.get_session_auth_hash(), kept["password"]):
        return None
    operator.backend = kept["backend"]
    return Held(operator, kept["then"])


def let_go(request: HttpRequest) -> None:
    request.session.pop(KEY, None)
