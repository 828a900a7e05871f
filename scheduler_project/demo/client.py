"""The demo's use of the REST API (DESIGN §10), as a service of one tenant would use it.

Every failure, a refusal as well as an API that is away, becomes an ``ApiError`` that names the request and the answer.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import aiohttp

from scheduler_project.demo.system import DemoError

TIMEOUT = aiohttp.ClientTimeout(total=10)


class ApiError(DemoError):
    """The API did not carry out the request."""


class ApiClient(AbstractAsyncContextManager["ApiClient"]):
    """``api_key``'s view of the API at ``base_url``."""

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self._base_url = f"{base_url}/api/v1"
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT, headers={"Authorization": f"Bearer {api_key}"}, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def create_job(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """The job as acknowledged."""
        answer: Mapping[str, Any] = await self._ask("POST", f"{self._base_url}/jobs", json=document)
        return answer

    async def delete_all_jobs(self) -> None:
        """Cancel and hide every job of the tenant; the history stays."""
        for job in [job async for job in self._pages("/jobs")]:
            await self._ask("DELETE", f"{self._base_url}/jobs/{job['id']}")

    async def upcoming(self, job_id: str) -> list[datetime]:
        """The firings that wait to be dispatched and the next one beyond the look-ahead window, unordered."""
        job = await self._ask("GET", f"{self._base_url}/jobs/{job_id}")
        page = await self._ask("GET", f"{self._base_url}/jobs/{job_id}/triggers?state=pending")
        announced = [trigger["scheduled_for"] for trigger in page["results"]] + [job["next_fire_at"]]
        return [datetime.fromisoformat(text) for text in announced if text]

    async def dead_letters(self, job_id: str) -> set[datetime]:
        """The instants of the job's dead triggers."""
        return {
            datetime.fromisoformat(trigger["scheduled_for"])
            async for trigger in self._pages(f"/dead-letters?job={job_id}")
        }

    async def _pages(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        url: str | None = self._base_url + path
        while url:
            page = await self._ask("GET", url)
            for item in page["results"]:
                yield item
            url = page["next"]

    async def _ask(self, method: str, url: str, **arguments: Any) -> Any:
        try:
            async with self._session.request(method, url, **arguments) as answer:
                if not answer.ok:
                    raise ApiError(f"{method} {url} was answered {answer.status}: {await answer.text()}")
                return None if answer.status == 204 else await answer.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(f"{method} {url} failed: {error!r}") from error
