"""A caller's address and scheme as proxies report them; only ``CARILLON_TRUSTED_PROXIES`` are believed.

Only two headers are read: ``X-Forwarded-For``, for the caller's address, and ``X-Forwarded-Proto``, for whether the
call came over TLS. No header may set the path that was called (``SCRIPT_NAME``; gunicorn.conf.py).
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from scheduler_project.environment import load

#: At most so many hops are looked at; a longer list was made up by its sender.
MAX_HOPS = 20


class Proxies:
    """Networks of machines that may say which caller they forward."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)
        # The address of a connection is looked up several times per request.
        self._held = lru_cache(maxsize=4096)(self._look_up)

    def holds(self, address: str) -> bool:
        """Whether ``address``, as a peer's socket has it, is such a machine's. A text that is no address is not."""
        return self._held(address)

    def _look_up(self, address: str) -> bool:
        known = address_of(address)
        return known is not None and any(known in network for network in self._networks)

    def caller(self, peer: str, forwarded_for: str) -> str:
        """The caller's address: the last hop that is not one of our proxies; ``peer`` where the hops do not help."""
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
    """The address in ``text``, without a zone; an IPv4 address within IPv6 as IPv4. None if the text is no address."""
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
    """``REMOTE_ADDR`` becomes the caller's address as our proxy reports it. Other peers are not believed about TLS."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        meta = request.META
        peer = meta.get("REMOTE_ADDR", "")
        if not trusted_proxies().holds(peer):
            if "HTTP_X_FORWARDED_PROTO" in meta:
                meta["HTTP_X_FORWARDED_PROTO"] = ""  # not removed: the sender came through some proxy
        elif forwarded_for := meta.get("HTTP_X_FORWARDED_FOR"):
            meta["REMOTE_ADDR"] = trusted_proxies().caller(peer, forwarded_for)
        return get_response(request)

    return middleware
