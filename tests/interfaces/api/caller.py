"""A caller of the API: one tenant, one key, and JSON in and out."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from jobs.models import Job
from tenants.actions import create_api_key
from tenants.models import Tenant

V1 = "/api/v1"


@dataclass
class Caller:
    """``caller.post("/jobs", {...})``; without a tenant it has no key."""

    tenant: Tenant | None = None
    scopes: tuple[str, ...] = ("read", "write")
    token: str | None = None
    client: Client = field(
        default_factory=lambda: Client(enforce_csrf_checks=True, raise_request_exception=False)
    )

    def __post_init__(self) -> None:
        if self.tenant is not None and self.token is None:
            _, self.token = create_api_key(tenant=self.tenant, name="tests", scopes=self.scopes)

    @classmethod
    def of_installation(cls) -> "Caller":
        """A caller with a key of the installation: no tenant, and ``operator`` as its only scope."""
        _, token = create_api_key(tenant=None, name="tests", scopes=("operator",))
        return cls(token=token)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A response; ``body`` is sent as JSON, or as it is when it is bytes."""
        # The same id for all calls, so that answers can be compared.
        headers = {"X-Request-ID": "test"} | headers
        if self.token is not None:
            headers = {"Authorization": f"Bearer {self.token}"} | headers
        content_type = headers.pop("content_type", "application/json")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        url = path if path.startswith(("/api", "http")) else V1 + path
        return self.client.generic(method, url, raw, content_type=content_type, headers=headers)

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.call("DELETE", path, **headers)


def noop_job(**changes: Any) -> dict[str, Any]:
    """A definition that the API accepts."""
    schedule = {"type": "interval", "every_seconds": 60}
    return {"name": "nightly", "job_type": "noop", "schedule": schedule} | changes


def faulty_fields(response: Any) -> set[str]:
    """The fields that a 400 names. Asserts that the answer is a 400, in the shape of RFC 9457."""
    assert response.status_code == 400, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == 400
    assert all(error["message"] for error in problem["errors"])
    return {error["field"] for error in problem["errors"]}


def jobs_stored() -> int:
    return Job.objects.count()
