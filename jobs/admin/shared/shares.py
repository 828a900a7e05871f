"""How many rows of each tenant one click touches. The number is shown, and the operator confirms that number.

Where more match by the time of the click, nothing is done. Above ``MAX_UNTYPED``, and where the count did not reach the
end, the operator must type the tenant's slug. ``templates/admin/shares.html`` draws the shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from jobs.core.errors import CarillonError
from tenants.models import Tenant

#: Above so many rows of a tenant the operator must type its slug.
MAX_UNTYPED = 1_000


class Unconfirmed(CarillonError):
    """The present numbers were not confirmed. Nothing was done."""


@dataclass(frozen=True)
class Share:
    """The rows of one tenant. Not ``exact``: there are more than were looked at. ``kind``: the word for one row."""

    tenant: Tenant
    matching: int
    exact: bool = True
    kind: str = "job"

    @property
    def is_typed(self) -> bool:
        return self.matching > MAX_UNTYPED or not self.exact

    @property
    def number(self) -> str:
        return f"{self.matching:,}" if self.exact else f"more than {self.matching:,}"

    @property
    def in_words(self) -> str:
        """``412 jobs of globex``."""
        kind = self.kind if self.exact and self.matching == 1 else f"{self.kind}s"
        return f"{self.number} {kind} of {self.tenant.slug}"


def check_confirmation(typed: QueryDict, shares: Sequence[Share]) -> None:
    """Raises ``Unconfirmed`` unless the present numbers were confirmed, tenant by tenant."""
    for share in shares:
        confirmed = typed.get(f"confirmed_{share.tenant.pk}", "")
        if not confirmed.isascii() or not confirmed.isdecimal() or int(confirmed[:18]) < share.matching:
            raise Unconfirmed(
                f"{share.in_words} match now, more than you confirmed. "
                "Nothing was done: check the numbers and confirm again."
            )
        if share.is_typed and typed.get(f"slug_{share.tenant.pk}", "").strip() != share.tenant.slug:
            raise Unconfirmed(f"Type {share.tenant.slug} to confirm {share.in_words}. Nothing was done.")
