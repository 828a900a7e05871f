"""The actor for the audit trail: the operator of a page, the key of an API call, or the user that runs a command."""

import getpass
import os
from collections.abc import Callable, Sequence

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from jobs.store.trail.actor import Actor, ActorKind, act_for_process, acting_as

#: The actor of a request before sign-in, while the user is not known.
NOBODY = Actor(ActorKind.OPERATOR, "not signed in")


def actor_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """The operator is the actor of a request's writes. Views of the API name the actor themselves: the caller's key."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        with acting_as(operator(request)):
            return get_response(request)

    return middleware


def operator(request: HttpRequest) -> Actor:
    """The signed-in user. Asks the database only where there is a session."""
    if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
        return Actor(ActorKind.OPERATOR, request.user.get_username())
    return NOBODY


def act_as_command(argv: Sequence[str]) -> None:
    """From now on this command, with the user of the process, is the actor. Options are not recorded."""
    subcommand = argv[1] if len(argv) > 1 and not argv[1].startswith("-") else ""
    act_for_process(Actor(ActorKind.COMMAND, f"manage.py {subcommand} by {_user()}"[:200]))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
