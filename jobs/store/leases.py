"""Leadership leases: take, renew, release; expiry is computed and compared in SQL alone (DESIGN §6)."""

from dataclasses import dataclass
from datetime import timedelta

from jobs.store import db

_SQL = db.queries("leases")


@dataclass(frozen=True, slots=True)
class Reign:
    """Proof of leadership, carried by every leader write. ``term`` is null when leader election is switched off."""

    lease: str
    holder: str
    term: int | None

    def proof(self) -> dict[str, object]:
        """The parameters every leader statement checks."""
        return {"lease": self.lease, "term": self.term}


def take(*, lease: str, holder: str, duration: timedelta) -> Reign | None:
    """Take a free or expired lease under a new term; None while another holds it. May be repeated."""
    rows = _SQL["take"](name=lease, holder=holder, duration=duration)
    return Reign(lease, holder, rows[0].term) if rows else None


def renew(reign: Reign, *, duration: timedelta) -> bool:
    """Prolong exactly this reign. False means: stop leading now."""
    return bool(_SQL["renew"](name=reign.lease, holder=reign.holder, term=reign.term, duration=duration))


def release(reign: Reign) -> None:
    """End exactly this reign at once; harmless when it is over."""
    _SQL["release"](name=reign.lease, holder=reign.holder, term=reign.term)
