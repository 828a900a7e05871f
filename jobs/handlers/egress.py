"""Where handlers may connect to: the HTTP session that all asynchronous handlers share, and its guard.

Keeps true: no connection is opened to a private, local, multicast or reserved address, or to one of the IPv6
ranges that carry an IPv4 address inside, unless an operator listed its network in
``CARILLON_WEBHOOK_ALLOW_NETWORKS``. No connection is opened to a port outside ``CARILLON_WEBHOOK_ALLOW_PORTS``. The
connector's socket factory checks the very address that is about to be connected. So an odd spelling, an IP literal, or
a name that resolves differently the second time cannot get past the check. A name is refused as a whole when any
of its addresses is refused. A kept-alive connection was checked when it was opened. Proxies from the environment,
cookies (tenants share the session) and decompression (bombs) are off. The caller must refuse redirects. No request is
sent twice.
"""

import os
import socket
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from jobs.conf import engine_settings
from jobs.handlers.shares.look_ups import Answers, LookUps

if TYPE_CHECKING:
    import aiohttp

Network = IPv4Network | IPv6Network

#: All addresses that IANA has given out for hosts. The addresses outside include NAT64 (64:ff9b::/96, 64:ff9b:1::/48),
#: IPv4 in its compatible and translated forms, site-local and SRv6 addresses; ``ipaddress`` calls some of them global.
_IPV6_UNICAST = IPv6Network("2000::/3")
#: Ranges within the global ones that lead elsewhere.
_LEADING_ELSEWHERE = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, the anycast addresses of port control and relays, ORCHID
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
        "192.0.0.0/24",  # protocol assignments: the nearest port control or TURN server
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # the address of its host that Azure shows each virtual machine
    )
)
#: Interface identifiers of ISATAP (RFC 5214), before an IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)

KEEP_ALIVE_SECONDS = 15.0

#: Sockets of this process's sessions. A child that a handler forks closes its copies: while the child held a copy, a
#: cancelled call's connection would stay open for the target.
_open_sockets: WeakSet[socket.socket] = WeakSet()


def _close_copies() -> None:
    for each in list(_open_sockets):
        each.close()


os.register_at_fork(after_in_child=_close_copies)


class AddressRefused(OSError):
    """The address that is about to be connected is not a public one.

    The error's text is the same for every address: happy eyeballs keeps the exception's type only when all texts
    agree, and a tenant must not learn which address an internal name resolves to.
    """

    def __init__(self) -> None:
        super().__init__(
            "the host's address is private or reserved; an operator can exempt its network by listing it in "
            "CARILLON_WEBHOOK_ALLOW_NETWORKS"
        )


class PortRefused(AddressRefused):
    """The port is not one that webhooks may call."""

    def __init__(self) -> None:
        OSError.__init__(
            self,
            "webhooks may not call this port; an operator can allow it by listing it in CARILLON_WEBHOOK_ALLOW_PORTS",
        )


@dataclass(frozen=True, slots=True)
class EgressRules:
    """The rules that the session enforces."""

    allow_networks: tuple[Network, ...] = ()
    allow_ports: tuple[range, ...] = (range(1, 65_536),)
    max_response_bytes: int = 65_536
    connect_timeout: timedelta = timedelta(seconds=5)

    @classmethod
    def from_settings(cls) -> "EgressRules":
        """The rules of this process's ``EngineSettings``."""
        settings = engine_settings()
        return cls(
            allow_networks=settings.webhook_allow_networks,
            allow_ports=settings.webhook_ports,
            max_response_bytes=settings.webhook_max_response_bytes,
            connect_timeout=timedelta(seconds=settings.webhook_connect_timeout_seconds),
        )


@dataclass(frozen=True, slots=True)
class Egress:
    """An open session and the rules it was opened under."""

    session: "aiohttp.ClientSession"
    rules: EgressRules


#: Set by ``AsyncRunner`` around every call.
current: ContextVar[Egress] = ContextVar("carillon_egress")


def is_refused(address: str, *, allow_networks: tuple[Network, ...] = ()) -> bool:
    """True when ``address`` (an IP literal as a socket address holds it) may not be connected to."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    if any(ip in network for network in allow_networks):
        return False
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return True
    if any(ip in network for network in _LEADING_ELSEWHERE):
        return True
    return isinstance(ip, IPv6Address) and (ip not in _IPV6_UNICAST or _tunnels_to_refused(ip))


def _tunnels_to_refused(ip: IPv6Address) -> bool:
    interface = int(ip) & (2**64 - 1)
    return interface >> 32 in _ISATAP and is_refused(str(IPv4Address(interface & 0xFFFFFFFF)))


def open_egress(rules: EgressRules) -> Egress:
    """Open the guarded session on the running loop; the caller closes it."""
    # Imported here: beats and the web process load the registry too, and aiohttp costs each process some 15 MB.
    import aiohttp

    def check(address: str) -> None:
        if is_refused(address, allow_networks=rules.allow_networks):
            raise AddressRefused

    def guarded_socket(info: Any) -> socket.socket:
        family, kind, proto, _, address = info
        check(address[0])
        if not any(address[1] in ports for ports in rules.allow_ports):
            raise PortRefused
        opened = socket.socket(family=family, type=kind, proto=proto)
        _open_sockets.add(opened)
        return opened

    look_ups, answers = LookUps(seconds=rules.connect_timeout.total_seconds()), Answers()

    class GuardedResolver(aiohttp.ThreadedResolver):
        """Refuses a name if any of its addresses is refused: a name with one of each kind is no accident."""

        async def resolve(self, host: str, *args: Any, **options: Any) -> Any:
            def ask() -> Awaitable[Any]:
                return look_ups.run(
                    host, partial(super(GuardedResolver, self).resolve, host, *args, **options)
                )

            found = await answers.get((host, args, tuple(options.items())), ask)
            for answer in found:
                check(answer["host"])
            return found

    connector = aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        # aiohttp's own cache makes every call for a name wait for the first call, of any tenant: see ``Answers``.
        use_dns_cache=False,
        resolver=GuardedResolver(),
        socket_factory=guarded_socket,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=rules.connect_timeout.total_seconds()),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
    )
    # By default aiohttp sends an idempotent method again where a kept-alive connection breaks without an answer. Here a
    # request may be made only once, and each repetition is an attempt on record.
    session._retry_connection = False
    return Egress(session, rules)
