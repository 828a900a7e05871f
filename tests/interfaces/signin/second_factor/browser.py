"""A browser in which an operator signs in, the codes of the operator's app, and the trail of it."""

import re
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.test import Client

from jobs.models import Change
from tenants import second_factor

PASSWORD = "right-horse-9"
OVERVIEW, LOGIN, CODE, OWN = "/admin/", "/admin/login/", "/admin/login/code/", "/admin/second-factor/"
STEP = timedelta(seconds=second_factor.STEP_SECONDS)


def code_of(secret: str, *, steps: int = 0) -> str:
    return second_factor.code_at(secret, second_factor.present_step() + steps)


def wrong(secret: str) -> str:
    near = {code_of(secret, steps=steps) for steps in (-1, 0, 1)}
    return next(code for code in ("000000", "111111", "222222", "333333") if code not in near)


def browser() -> Client:
    return Client(REMOTE_ADDR="198.51.100.7")


def give_password(client: Client, **more: str) -> HttpResponse:
    return client.post(LOGIN, {"username": "ops", "password": PASSWORD, **more})


def give(client: Client, code: str) -> HttpResponse:
    return client.post(CODE, {"code": code})


def is_in(client: Client) -> bool:
    return client.get(OVERVIEW).status_code == 200


def told(action: str) -> list[tuple[str, dict[str, Any]]]:
    rows = Change.objects.filter(kind="user", name="ops", action=action).order_by("id")
    return [(row.actor, row.changes) for row in rows]


def offer_of(page: HttpResponse) -> tuple[str, str]:
    """The value that the form carries, and the secret that it shows."""
    text = page.content.decode()
    offer = re.search(r'name="offer" value="([^"]+)"', text)
    shown = re.search(r'id="secret">([A-Z2-7 ]+)<', text)
    assert offer
    assert shown
    return offer[1], shown[1].replace(" ", "")
