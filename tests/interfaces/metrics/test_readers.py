"""``/metrics``: who may read it."""

from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db
TOKEN = "a token of sixteen or more".replace(" ", "-")


class TestWhoMayReadIt:
    @pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
    def test_is_a_caller_from_this_machine(self, client: Client, address: str) -> None:
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 200

    @pytest.mark.parametrize(
        ("address", "headers"),
        [
            ("192.0.2.1", {}),
            ("10.0.0.1", {}),
            ("", {}),
            ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
            ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
            ("127.0.0.1", {"X-Real-IP": "192.0.2.1"}),
            ("127.0.0.1", {"X-Forwarded-For": ""}),
            ("127.0.0.1", {"CF-Connecting-IP": "127.0.0.1"}),
            ("127.0.0.1", {"True-Client-IP": "127.0.0.1"}),
            ("127.0.0.1", {"X-Client-IP": "127.0.0.1"}),
            ("127.0.0.1", {"X-Request-ID": "of whatever stands before it"}),
        ],
    )
    def test_is_nobody_from_elsewhere_nor_behind_a_proxy(
        self, client: Client, address: str, headers: dict[str, str]
    ) -> None:
        answer = client.get("/metrics", REMOTE_ADDR=address, headers=headers)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
        assert b"carillon_" not in answer.content

    @pytest.mark.parametrize(
        ("given", "status"),
        [(f"Bearer {TOKEN}", 200), (f"Bearer {TOKEN}x", 401), ("Bearer ", 401), (TOKEN, 401), ("\xff", 401)],
    )
    def test_is_whoever_has_the_token_from_wherever(
        self, client: Client, settings: Any, given: str, status: int
    ) -> None:
        settings.METRICS_TOKEN = TOKEN
        for address in ("192.0.2.1", "127.0.0.1"):
            answer = client.get("/metrics", REMOTE_ADDR=address, headers={"Authorization": given})
            assert answer.status_code == status

    def test_is_nobody_else_where_there_is_a_token(self, client: Client, settings: Any) -> None:
        settings.METRICS_TOKEN = TOKEN
        assert client.get("/metrics").status_code == 401

    def test_is_nobody_by_an_empty_token(self, client: Client, settings: Any) -> None:
        settings.METRICS_TOKEN = ""
        for given in ("Bearer ", "Bearer"):
            answer = client.get("/metrics", REMOTE_ADDR="192.0.2.1", headers={"Authorization": given})
            assert answer.status_code == 401

    @pytest.mark.parametrize("method", ["post", "put", "delete"])
    def test_is_nobody_who_would_write(self, client: Client, method: str) -> None:
        assert getattr(client, method)("/metrics").status_code == 405
