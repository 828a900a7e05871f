"""The common part of commands about tenants: quotas as options, and refusals in one line."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.models import ApiKey, Tenant
from tenants.quotas import NAMES, QUOTAS

_NONE = "none"


def add_quotas(parser: ArgumentParser) -> None:
    """An option for each quota, such as ``--max-in-flight N``; its range is in the help."""
    for quota in QUOTAS:
        parser.add_argument(
            f"--{quota.name.replace('_', '-')}",
            type=_number_or_none if quota.can_be_lifted else int,
            metavar="N",
            help=f"{quota.low:,} to {quota.high:,}. {quota.help_text(_NONE)}",
        )


def add_lists(parser: ArgumentParser) -> None:
    """``--queues`` and ``--disabled-types``: comma-separated, in place of the present list; empty for none."""
    parser.add_argument(
        "--queues",
        type=_list,
        metavar="NAME,…",
        help="further queues that message and celery_task may write to, besides tenant.SLUG.*: names, or "
        "patterns with * and ?",
    )
    parser.add_argument(
        "--disabled-types", type=_list, metavar="TYPE,…", help="job types that the tenant may not use"
    )


def given_lists(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lists that were named on the command line."""
    return {name: options[name] for name in ("queues", "disabled_types") if options[name] is not None}


def given_quotas(options: Mapping[str, Any]) -> dict[str, int | None]:
    """The quotas that were named on the command line."""
    given = {name: options[name] for name in NAMES if options[name] is not None}
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
        raise CommandError("There is no API key with this prefix.")
    return key


def complaints(error: ValidationError) -> str:
    """``weight: Must be a whole number from 1 to 10,000.``, joined by semicolons."""
    return "; ".join(f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items())


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number_or_none(text: str) -> int | str:
    if text == _NONE:
        return text
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number or {_NONE}, not {text!r}") from None
