"""Which addresses a handler may connect to, by rule and on the wire."""

import socket
from ipaddress import ip_network

import pytest

from jobs.handlers import registry
from jobs.handlers.egress import is_refused

PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "240.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "192.88.99.1",
    "::1",
    "::",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2001:db8::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"]


class TestIsRefused:
    @pytest.mark.parametrize("address", PRIVATE)
    def test_refuses_what_is_not_public_or_hides_another_address(self, address):
        assert is_refused(address)

    @pytest.mark.parametrize("address", PUBLIC)
    def test_lets_public_addresses_pass(self, address):
        assert not is_refused(address)

    def test_exempts_an_operators_networks_and_nothing_beside_them(self):
        allowed = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
        for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
            assert not is_refused(address, allow_networks=allowed)
        for address in ("10.2.0.1", "127.0.0.1", "64:ff9b::a01:203", "fc00::1"):
            assert is_refused(address, allow_networks=allowed)


class TestConnecting:
    """On the wire: a listener stands on loopback, and must never see a connection."""

    SPELLINGS = ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.",
                 "\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1", "[::1]", "[::ffff:127.0.0.1]",
                 "[64:ff9b::7f00:1]", "0.0.0.0", "[::]")  # fmt: skip

    @pytest.mark.parametrize("host", SPELLINGS)
    def test_refuses_every_spelling_of_loopback(self, run_one, open_runner, make_context, receiver, host):
        payload = {"url": receiver.url(host=host)}
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=open_runner(allow=()))
        assert (ended.kind, ended.permanent) == ("failed", True), ended
        assert ended.error_code in {"address_refused", "bad_url"}
        assert not receiver.connections

    def test_names_the_setting_that_would_allow_it_but_not_the_address(
        self, run_one, open_runner, make_context, receiver
    ):
        payload = {"url": receiver.url(host="localhost")}
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=open_runner(allow=()))
        assert ended.error_code == "address_refused"
        assert "CARILLON_WEBHOOK_ALLOW_NETWORKS" in ended.error_message
        assert "127.0.0.1" not in ended.error_message

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_reaches_an_allowed_network_by_name_and_by_address(self, run_one, make_context, receiver, host):
        ended = run_one(registry.get("webhook"), make_context(), {"url": receiver.url(host=host)})
        assert (ended.kind, ended.http_status) == ("succeeded", 200)

    def test_judges_the_address_whatever_public_name_resolves_to_it(
        self, run_one, open_runner, make_context, receiver, monkeypatch
    ):
        """DNS rebinding: what counts is the address connected, whatever was resolved before."""
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", receiver.port))],
        )
        payload = {"url": receiver.url(host="example.com")}
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=open_runner(allow=()))
        assert ended.error_code == "address_refused"
        assert not receiver.connections

    def test_takes_no_proxy_from_the_environment(self, run_one, make_context, receiver, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert run_one(registry.get("webhook"), make_context(), {"url": receiver.url()}).kind == "succeeded"
