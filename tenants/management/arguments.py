"""What commands about tenants have in common: quotas as options, and refusals in one line."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.models import RANGES, ApiKey, Tenant

#: Quotas that may be lifted altogether.
_LIFTABLE = ("rate_per_second", "rate_burst")
_NONE = "none"


def add_quotas(parser: ArgumentParser) -> None:
    """An option for each quota, such as ``--max-in-flight N``; its range is in the help."""
    for name, (low, high) in RANGES.items():
        liftable = name in _LIFTABLE
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=_number_or_none if liftable else int,
            metavar="N",
            help=f"{low:,} to {high:,}" + (f", or {_NONE} for no limit" if liftable else ""),
        )


def given_quotas(options: Mapping[str, Any]) -> dict[str, int | None]:
    """The quotas that were named on the command line."""
    given = {name: options[name] for name in RANGES if options[name] is not None}
    return {name: None if value == _NONE else value for name, value in given.items()}


def tenant_of(slug: str) -> Tenant:
    """The tenant of that slug. Raises ``CommandError``."""
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        raise CommandError(f"There is no tenant {slug!a}.")
    return tenant


def key_of(prefix: str) -> ApiKey:
    """The API key of that prefix, with or without ``ck_``. Raises ``CommandError``."""
    key = ApiKey.objects.filter(prefix=prefix.removeprefix("ck_").partition("_")[0]).first()
    if key is None:
        raise CommandError("There is no API key of this prefix.")
    return key


def complaints(error: ValidationError) -> str:
    """``weight: Must be a whole number from 1 to 10,000.``, joined by semicolons."""
    return "; ".join(f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items())


def _number_or_none(text: str) -> int | str:
    if text == _NONE:
        return text
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number or {_NONE}, not {text!r}") from None
