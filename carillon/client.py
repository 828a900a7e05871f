"""HTTP to the API: one key, JSON in and out, and requests that are repeated when no answer comes.

Keeps true: every write carries an ``Idempotency-Key``, the same in each repetition, so that a write whose answer was
lost is done once. The key goes to ``CARILLON_URL`` alone: redirects are not followed, and only the query of a page's
link to the next page is used.
"""

import os
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import requests
from requests.auth import AuthBase

from carillon.errors import Misuse, Problem, Unreachable

V1 = "/api/v1"
URL, KEY = "CARILLON_URL", "CARILLON_API_KEY"
#: For connecting, and for silence of a connected server.
TIMEOUT = (5.0, 60.0)
#: Between repetitions.
PAUSES_SECONDS = (0.5, 1.0, 2.0)
MAX_PAUSE_SECONDS = 30.0
MAX_PAGE_SIZE = 200
pause = time.sleep


def trace_headers() -> dict[str, str]:
    """The trace that this process is part of, where its environment names one, as OpenTelemetry has it.

    The server validates them; a value that cannot be a header at all is left out.
    """
    named = {name: os.environ.get(name.upper(), "").strip() for name in ("traceparent", "tracestate")}
    return {name: value for name, value in named.items() if value and value.isascii() and value.isprintable()}


class Bearer(AuthBase):
    """An object, because requests otherwise prefers the entry for the host in ``~/.netrc``."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request


class Client:
    """Calls of one tenant. Every method raises ``Problem`` for a refusal and ``Unreachable`` for no answer."""

    def __init__(self, url: str, key: str, session: requests.Session | None = None) -> None:
        self._base = url.rstrip("/").removesuffix(V1) + V1
        self._session = session or requests.Session()
        self._session.auth = Bearer(key)

    def get(self, path: str, **parameters: Any) -> Any:
        return self.send("GET", path, parameters=parameters)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """``key`` is the ``Idempotency-Key``; by default one is made up."""
        return self.send("POST", path, body, headers={"Idempotency-Key": key} if key else None)

    def rows(self, path: str, *, limit: int | None, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The rows of a list, page after page, up to ``limit`` (None: all of them)."""
        query = {name: value for name, value in parameters.items() if value is not None}
        query["page_size"] = min(limit or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
        left = limit
        while left is None or left > 0:
            page = self.get(path, **query)
            yield from page["results"][:left]
            if left is not None:
                left -= len(page["results"])
            if page.get("next") is None:
                return
            query |= dict(parse_qsl(urlsplit(page["next"]).query))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> Any:
        """The JSON of the answer to one request; None where it has no body.

        The request is repeated under one key while no answer comes or the server asks for it.
        """
        headers = {"Accept": "application/json"} | trace_headers() | (headers or {})
        if method != "GET":
            headers.setdefault("Idempotency-Key", str(uuid4()))
        for seconds in (*PAUSES_SECONDS, None):
            try:
                answer = self._session.request(
                    method,
                    self._base + path,
                    json=body,
                    headers=headers,
                    params=parameters,
                    timeout=TIMEOUT,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                self._give_up(error, last=seconds is None)
            else:
                if seconds is None or not _asks_to_repeat(answer):
                    return _document(checked(answer))
                seconds = _seconds_asked_for(answer) or seconds
            pause(seconds or 0.0)
        raise AssertionError("the last try returns or raises")

    def stream(self, path: str, *, headers: dict[str, str]) -> requests.Response:
        """An answer that is read as it comes; the caller closes it. Tried once."""
        try:
            answer = self._session.get(
                self._base + path, headers=headers, stream=True, timeout=TIMEOUT, allow_redirects=False
            )
        except requests.RequestException as error:
            raise unreachable(self._base, error) from None
        return checked(answer)

    def _give_up(self, error: requests.RequestException, *, last: bool) -> None:
        """Raise, unless another try may help."""
        if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
            raise Misuse(f"{URL} is not the address of a server: {error}") from None
        if isinstance(error, requests.exceptions.InvalidHeader):
            raise Misuse(f"{KEY} has characters that a key cannot have.") from None
        if isinstance(error, requests.exceptions.InvalidJSONError):
            raise Misuse("Infinite numbers, and those that are none, are no JSON.") from None
        if last or not isinstance(error, requests.ConnectionError | requests.Timeout):
            raise unreachable(self._base, error) from None


def checked(answer: requests.Response) -> requests.Response:
    """``answer`` if it is a success. Raises ``Problem``, or ``Unreachable`` if the answer is not the API's."""
    if 200 <= answer.status_code < 300:
        return answer
    with answer:
        if 300 <= answer.status_code < 400:
            target = answer.headers.get("Location", "elsewhere")
            raise Unreachable(f"The server redirects to {target}; set {URL} to where the API is.")
        try:
            document = answer.json()
        except (ValueError, requests.RequestException):
            document = None
    if not isinstance(document, dict):
        kind = answer.headers.get("Content-Type", "no type")
        raise Unreachable(
            f"HTTP {answer.status_code} ({kind}) from {answer.url}; that is not an answer of Carillon."
        )
    raise Problem(answer.status_code, document)


def _document(answer: requests.Response) -> Any:
    """The JSON of a success. Raises ``Unreachable`` for any other page, such as a proxy's or another server's."""
    try:
        return answer.json() if answer.content else None
    except ValueError:
        kind = answer.headers.get("Content-Type", "no type")
        raise Unreachable(f"{answer.url} answers with {kind}; that is not an answer of Carillon.") from None


def unreachable(url: str, error: Exception) -> Unreachable:
    reason = error
    while reason.__cause__ or reason.__context__:
        reason = reason.__cause__ or reason.__context__  # type: ignore[assignment]
    return Unreachable(f"No answer from {url}: {reason or type(reason).__name__}")


def _asks_to_repeat(answer: requests.Response) -> bool:
    if answer.status_code == 409:
        return "idempotency-key-in-use" in answer.text
    return answer.status_code in (429, 502, 503, 504)


def _seconds_asked_for(answer: requests.Response) -> float | None:
    given = answer.headers.get("Retry-After", "")
    return min(float(given), MAX_PAUSE_SECONDS) if given.isascii() and given.isdigit() else None


def connect() -> Client:
    """The client of the environment. Raises ``Misuse`` that names the missing variables."""
    missing = [name for name in (URL, KEY) if not os.environ.get(name, "").strip()]
    if missing:
        raise Misuse(f"Set {' and '.join(missing)}, such as {URL}=https://carillon.example and {KEY}=ck_….")
    url, key = os.environ[URL].strip(), os.environ[KEY].strip()
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise Misuse(f"{URL} must begin with https:// (or http://) and name a host; it is {url!r}.")
    if not key.isascii() or not key.isprintable():
        raise Misuse(f"{KEY} has characters that a key cannot have.")
    return Client(url, key)
