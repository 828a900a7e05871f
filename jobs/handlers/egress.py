"""Where handlers may connect to: the HTTP session all asynchronous handlers share, and its guard.

Keeps true: no connection is opened to a private, local, multicast or reserved address, or to one of the IPv6
ranges that carry an IPv4 address inside, unless an operator listed its network in
``CARILLON_WEBHOOK_ALLOW_NETWORKS``. The check sits in the connector's socket factory, on the very address
about to be connected, so neither an odd spelling, nor an IP literal, nor a name that resolves differently the
second time gets past it. A kept-alive connection was checked when it was opened. Proxies from the
environment, cookies (tenants share the session) and decompression (bombs) are off; redirects are the caller's
to refuse.
"""

import socket
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from jobs.conf import engine_settings

if TYPE_CHECKING:
    import aiohttp

Network = IPv4Network | IPv6Network

#: Ranges ``ipaddress`` calls global although they lead elsewhere: 6to4, its relay anycast, NAT64, and
#: IPv4-compatible.
_EMBEDDING = tuple(
    ip_network(text) for text in ("2002::/16", "192.88.99.0/24", "64:ff9b::/96", "64:ff9b:1::/48", "::/96")
)

KEEP_ALIVE_SECONDS = 15.0
DNS_CACHE_SECONDS = 10


class AddressRefused(OSError):
    """The address about to be connected is not a public one.

    Its text is the same for every address: happy eyeballs keeps the exception's type only when all texts
    agree, and a tenant has no business learning what an internal name resolves to.
    """

    def __init__(self) -> None:
        super().__init__(
            "the host's address is private or reserved; an operator can exempt its network by listing it in "
            "CARILLON_WEBHOOK_ALLOW_NETWORKS"
        )


@dataclass(frozen=True, slots=True)
class EgressRules:
    """What the session is held to."""

    allow_networks: tuple[Network, ...] = ()
    max_response_bytes: int = 65_536
    connect_timeout: timedelta = timedelta(seconds=5)

    @classmethod
    def from_settings(cls) -> "EgressRules":
        """The rules of this process's ``EngineSettings``."""
        settings = engine_settings()
        return cls(
            allow_networks=settings.webhook_allow_networks,
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
    if any(ip in network for network in _EMBEDDING):
        return True
    return not ip.is_global or ip.is_multicast or ip.is_reserved


def open_egress(rules: EgressRules) -> Egress:
    """Open the guarded session on the running loop; the caller closes it."""
    # Imported here: beats and the web process load the registry too, and aiohttp costs each some 15 MB.
    import aiohttp

    def guarded_socket(info: Any) -> socket.socket:
        family, kind, proto, _, address = info
        if is_refused(address[0], allow_networks=rules.allow_networks):
            raise AddressRefused
        return socket.socket(family=family, type=kind, proto=proto)

    connector = aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        ttl_dns_cache=DNS_CACHE_SECONDS,
        resolver=aiohttp.ThreadedResolver(),
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
    return Egress(session, rules)
