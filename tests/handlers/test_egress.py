"""Which addresses a handler may connect to, by rule and on the wire."""

import socket
from ipaddress import ip_network

import pytest
from pydantic import ValidationError

from jobs.conf import EngineSettings
from jobs.handlers import egress, registry
from jobs.handlers.egress import is_refused
from jobs.handlers.shares import look_ups

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
    # Global according to ``ipaddress``, but not what they seem.
    "168.63.129.16",
    "192.0.0.9",
    "192.0.0.10",
    "192.0.0.192",
    "::ffff:0:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:1::1",
    "2001:1::2",
    "2001:20::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "5f00::1",
    "fec0::1",
    "100::1",
    "fd00:ec2::254",
    "ff0e::1",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a9fe:a9fe",
    "4000::1",
    "::7f00:1",
    "0.0.0.1",
    "127.255.255.254",
    "192.168.0.0",
    "198.51.100.1",
    "203.0.113.1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "2606:4700::200:5efe:808:808"]


class Listener:
    """A socket that listens on every address of this machine unless told where, and counts its connections."""

    def __init__(self, address="::"):
        everywhere = {"family": socket.AF_INET6, "dualstack_ipv6": True} if address == "::" else {}
        self._socket = socket.create_server((address, 0), **everywhere)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]

    def connections(self):
        """The number of connections since the last call. The kernel completes connections before any is accepted."""
        count = 0
        while True:
            try:
                self._socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self):
        self._socket.close()


@pytest.fixture
def listener():
    standing = Listener()
    with socket.create_connection(("127.0.0.1", standing.port)):
        assert standing.connections() == 1
    yield standing
    standing.close()


@pytest.fixture
def narrow_listener():
    standing = Listener("127.0.0.1")
    yield standing
    standing.close()


def resolve_to(monkeypatch, answers):
    """Let names resolve to ``answers`` in turn, the last one for ever. Returns the names that were looked up."""
    asked = []

    def resolve(host, port, *_, **__):
        addresses = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


class TestPorts:
    @pytest.mark.parametrize(
        "text", ["", "x", "0", "65536", "9-8", "1-", "1--2", "80,", "\uff18\uff10", "-1", "80 443"]
    )
    def test_are_refused_in_the_settings_unless_in_order(self, text):
        with pytest.raises(ValidationError):
            EngineSettings(webhook_allow_ports=text)

    def test_are_read_as_single_ones_and_ranges(self):
        settings = EngineSettings(webhook_allow_ports="80, 443,8000-8999")
        assert settings.webhook_ports == (range(80, 81), range(443, 444), range(8000, 9000))


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
    """Tested on the wire: a listener stands on every address of this machine, and must never see a connection."""

    #: Every spelling of loopback, or of an address that leads to it, that a URL or a resolver may understand.
    HOSTS = (
        "127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "127.0.1", "2130706433", "0x7f000001",
        "0x7f.1", "0x7F.0x0.0x0.0x1", "0177.0.0.1", "00000177.0.0.1", "017700000001", "0177.0.0x1", "127.0.0.1.",
        "127.00.00.01", "127.255.255.254", "127.1.2.3", "4294967295", "0", "0.0.0.0", "0x0", "00",
        "\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021", "127\uff0e0\uff0e0\uff0e1",
        "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3", "%31%32%37.0.0.1", "127%2e0%2e0%2e1",
        "%6c%6f%63%61%6chost", "[::1]",
        "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]",
        "[64:ff9b::127.0.0.1]", "[64:ff9b:1::127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]",
        "[fe80::1%25lo]", "[::1%25lo]", "[ff02::1]", "127.0.0.1#@example.com", "127.0.0.1?@example.com",
        "example.com@127.0.0.1", "a:b@127.0.0.1", "127.0.0.1\\@example.com", "127.0.0.1%00.example.com",
        "127.0.0.1%0d%0a", "127.0.0.1%09", " 127.0.0.1", "127.0.0.1\t", "1\u00ad27.0.0.1", "\u200b127.0.0.1",
    )  # fmt: skip

    @pytest.mark.parametrize("host", HOSTS)
    def test_refuses_every_form_of_loopback(self, run_one, open_runner, make_context, listener, host):
        name, tail = (host[:9], host[9:]) if host[9:10] in {"#", "?", "\\"} else (host, "/hook")
        ended = run_one(
            registry.get("webhook"),
            make_context(),
            {"url": f"http://{name}:{listener.port}{tail}"},
            runner=open_runner(allow=()),
        )
        assert (ended.kind, ended.permanent) == ("failed", True) or ended.error_code == "dns", ended
        assert ended.error_code in {"address_refused", "bad_url", "invalid_payload", "dns"}
        assert listener.connections() == 0

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
        self, run_one, open_runner, make_context, listener, monkeypatch
    ):
        """DNS rebinding: only the connected address counts, whichever address was resolved before."""
        resolve_to(monkeypatch, [["127.0.0.1"]])
        payload = {"url": f"http://example.com:{listener.port}/"}
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=open_runner(allow=()))
        assert ended.error_code == "address_refused"
        assert listener.connections() == 0

    @pytest.mark.parametrize("name", ["rebinding.example", "both.example"])
    def test_refuses_what_a_name_resolves_to_the_second_time(
        self, run_one, open_runner, make_context, narrow_listener, monkeypatch, name
    ):
        """The first answer may be called (nothing listens there). Later answers are the listener's own address."""
        asked = resolve_to(monkeypatch, [["127.0.0.2"], ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
        monkeypatch.setattr(look_ups, "KEEP_SECONDS", 0)
        runner = open_runner(allow=(ip_network("127.0.0.2/32"),))
        payload = {"url": f"http://{name}:{narrow_listener.port}/"}
        codes = [
            run_one(registry.get("webhook"), make_context(), payload, runner=runner).error_code
            for _ in range(3)
        ]
        assert codes == ["connect", "address_refused", "address_refused"]
        assert len(asked) == 3
        assert narrow_listener.connections() == 0

    def test_judges_the_address_in_use_even_where_the_resolver_was_believed(
        self, run_one, open_runner, make_context, listener, monkeypatch
    ):
        """The address is checked by the resolver and again at the socket: the socket's check decides."""
        resolve_to(monkeypatch, [["127.0.0.1"]])
        judged = []

        def believe_once(address, **_):
            judged.append(address)
            return len(judged) > 1

        monkeypatch.setattr(egress, "is_refused", believe_once)
        payload = {"url": f"http://example.com:{listener.port}/"}
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=open_runner(allow=()))
        assert (ended.error_code, judged) == ("address_refused", ["127.0.0.1"] * 2)
        assert listener.connections() == 0

    @pytest.mark.parametrize(
        "location", ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "http://[::1]:{port}/"]
    )
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_is_led_nowhere_by_a_redirect(self, run_one, make_context, receiver, listener, status, location):
        url = receiver.responds(
            "/away", status=status, headers={"Location": location.format(port=listener.port)}
        )
        ended = run_one(registry.get("webhook"), make_context(), {"url": url})
        assert (ended.error_code, listener.connections()) == ("redirect", 0)

    @pytest.mark.parametrize("ports", [(range(443, 444),), (range(1, 1024), range(65535, 65536))])
    def test_refuses_ports_that_are_not_listed_whatever_the_network(
        self, run_one, open_runner, make_context, listener, ports
    ):
        payload = {"url": f"http://127.0.0.1:{listener.port}/"}
        runner = open_runner(allow_ports=ports)
        ended = run_one(registry.get("webhook"), make_context(), payload, runner=runner)
        assert (ended.error_code, ended.permanent) == ("port_refused", True)
        assert "CARILLON_WEBHOOK_ALLOW_PORTS" in ended.error_message
        assert listener.connections() == 0

    def test_takes_no_proxy_from_the_environment(self, run_one, make_context, receiver, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert run_one(registry.get("webhook"), make_context(), {"url": receiver.url()}).kind == "succeeded"
