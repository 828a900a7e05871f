"""A sign-in whose password was right, and whose code is still to come: kept in the browser's session, and nobody's.

It is over after a while, and when the password, the operator's rights to sign in or the address it leads to are no
more what they were.
"""

import hmac
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.http import HttpRequest

from tenants.clock import database_now

#: In Django's session.
KEY = "held_sign_in"
LASTS_SECONDS = 600


class Held(NamedTuple):
    operator: Any
    #: Where the sign-in leads to.
    then: str


def hold(request: HttpRequest, operator: Any, then: str) -> None:
    """Let ``operator``, whose password was right, sign in with a code."""
    # Whoever knew the session's key before must not be able to give the code in it.
    request.session.cycle_key()
    request.session[KEY] = {
        "operator": operator.pk,
        "backend": operator.backend,
        "password": operator.get_session_auth_hash(),
        "until": database_now().timestamp() + LASTS_SECONDS,
        "then": then,
    }


def held_sign_in(request: HttpRequest) -> Held | None:
    """The sign-in that waits for its code; None: there is none, or no more."""
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
