"""A request's claims about itself, checked without a server: its end, its caller, and the address that it names."""

import pytest
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from jobs.core.errors import InvalidInput
from jobs.handlers import outcome, registry
from scheduler_project.web.forwarded import trusted_proxies
from scheduler_project.web.intake import Intake


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.binary(min_size=1, max_size=30), max_size=4),
    step=st.integers(1, 90),
    form=st.integers(0, 2),
)
def test_a_request_is_whole_with_its_last_byte_and_not_before(
    parts: list[bytes], step: int, form: int
) -> None:
    """This holds however it is cut up. gunicorn's own parser, given the same bytes, wants no more of them."""
    body = b"".join(parts)
    head, sent = b"Content-Length: %d" % len(body), body
    if form:  # in chunks, without a trailer or with one
        chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts)
        head, sent = (
            b"Transfer-Encoding: chunked",
            chunks + b"0\r\n" + (b"\r\n" if form == 1 else b"A: b\r\n\r\n"),
        )
    request = b"POST / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n" + sent
    intake = Intake()
    for at in range(0, len(request) - 1, step):
        intake.feed(request[at : min(at + step, len(request) - 1)])
        assert not intake.whole, request[: at + step]
    intake.feed(request[-1:])
    assert intake.whole
    parser = RequestParser(Config(), iter([intake.take()]), ("192.0.2.1", 1))
    assert next(parser).body.read() == body
    assert (parser.unreader.take_buffered(), len(intake)) == (b"", 0)


@pytest.mark.parametrize(
    ("peer", "said", "caller"),
    [
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "192.0.2.9, 198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "198.51.100.1, 127.0.0.3", "198.51.100.1"),
        ("::ffff:127.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("203.0.113.1", "198.51.100.1", "203.0.113.1"),
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1, nonsense", "127.0.0.1"),
    ],
)
def test_a_caller_is_the_last_hop_that_is_no_proxy_of_ours(peer: str, said: str, caller: str) -> None:
    assert trusted_proxies().caller(peer, said) == caller


@pytest.mark.parametrize("url", ["http://[v1.fe80::1]/", "http://h:+80/", "http://h:\uff18\uff10/"])
def test_a_url_that_reads_as_something_else_ends_a_stored_job_for_good(url: str, job_types: None) -> None:
    """Its payload is checked again before it is sent. Control: yarl, which would send it, accepts each URL."""
    assert URL(url).host
    with pytest.raises(InvalidInput) as refused:
        registry.get("webhook").parse({"url": url})
    assert set(refused.value.errors) == {"payload.url"}
    assert outcome.invalid_payload(refused.value).permanent
