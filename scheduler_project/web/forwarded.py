"""A caller's address and scheme as proxies report them, believed of ``CARILLON_TRUSTED_PROXIES`` alone.

Two headers are read at all: ``X-Forwarded-For``, for the caller's address, and ``X-Forwarded-Proto``, for whether the
call came over TLS. No header says which path was called (``SCRIPT_NAME``; gunicorn.conf.py).
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from scheduler_project.environment import load

#: So many hops are looked at; a longer list was made by its sender.
MAX_HOPS = 20


class Proxies:
    """Networks of machines that may say which caller they forward."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)
        # A connection's address is asked about several times a request.
        self._held = lru_cache(maxsize=4096)(self._look_up)

    def holds(self, address: str) -> bool:
        """Whether ``address``, as a peer's socket has it, is such a machine's. What is no address is not."""
        return self._held(address)

    def _look_up(self, address: str) -> bool:
        known = address_of(address)
        return known is not None and any(known in network for network in self._networks)

    def caller(self, peer: str, forwarded_for: str) -> str:
        """The caller's address: the last hop that is not one of our proxies, and ``peer`` where that does not help."""
        caller = peer
        for hop in reversed(forwarded_for.split(",")[-MAX_HOPS:]):
            if not self.holds(caller):
                break
            known = address_of(hop.strip())
            if known is None:
                break
            caller = str(known)
        return caller


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """An address as one writes it, with no zone; IPv4 within IPv6 as itself. None for what is none."""
    try:
        known = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(known, "ipv4_mapped", None) or known


@cache
def trusted_proxies() -> Proxies:
    platform, _ = load()
    return Proxies(platform.trusted_proxies)


def believe_proxies(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """``REMOTE_ADDR`` becomes the caller's, as a proxy of ours has it; of others no word on TLS is taken."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        meta = request.META
        peer = meta.get("REMOTE_ADDR", "")
        if not trusted_proxies().holds(peer):
            if "HTTP_X_FORWARDED_PROTO" in meta:
                meta["HTTP_X_FORWARDED_PROTO"] = ""  # still there: who sent it came through something
        elif forwarded_for := meta.get("HTTP_X_FORWARDED_FOR"):
            meta["REMOTE_ADDR"] = trusted_proxies().caller(peer, forwarded_for)
        return get_response(request)

    return middleware
