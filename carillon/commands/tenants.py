"""``carillon tenants`` and ``keys``: tenants, their quotas and their keys, with a key of the installation."""

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import connect
from carillon.errors import Misuse
from carillon.output import All, Format, Limit, Output, page_of, print_object, print_rows, say

app = typer.Typer(
    no_args_is_help=True,
    help="List, create and change tenants. Needs an operator key, of the installation.",
)
keys = typer.Typer(
    no_args_is_help=True,
    help="List, create and revoke tenants' API keys. Needs an operator key, of the installation.",
)
Slug = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's slug.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Such as weight=200, rate_per_second=null or queues='[\"orders.*\"]'; may be repeated.",
    ),
]
_COLUMNS = ("slug", "name", "status", "weight", "max_in_flight", "max_jobs", "rate_per_second", "created_at")
_KEY_COLUMNS = ("prefix", "name", "scopes", "expires_at", "last_used_at", "revoked_at")


@app.command("list")
def list_tenants(
    status: Annotated[str | None, typer.Option(help="Status: active, suspended or frozen.")] = None,
    limit: Limit = 50,
    everything: All = False,
    output: Output = Format.table,
) -> None:
    """List tenants by slug."""
    rows = connect().rows("/installation/tenants", limit=None if everything else limit + 1, status=status)
    print_rows(page_of(rows, limit=limit, everything=everything), _COLUMNS, output=output)


@app.command()
def show(tenant: Slug, output: Output = Format.table) -> None:
    """Show a tenant: its status and its quotas."""
    print_object(connect().get(_path(tenant)), output=output)


@app.command()
def create(
    tenant: Slug,
    name: Annotated[str | None, typer.Option(help="Name for people.")] = None,
    fields: Set = None,
    output: Output = Format.table,
) -> None:
    """Create a tenant; its signing secret is printed this once."""
    body = {"slug": tenant} | _fields(fields) | ({} if name is None else {"name": name})
    print_object(connect().send("POST", "/installation/tenants", body), output=output)


@app.command()
def update(tenant: Slug, fields: Set = None, output: Output = Format.table) -> None:
    """Change a tenant's quotas or name. A quota below present use removes nothing, and lets nothing more in."""
    if not fields:
        raise Misuse("Nothing to change: give a change, such as --set max_in_flight=200.")
    _change(tenant, _fields(fields), output)


@app.command()
def suspend(tenant: Slug, output: Output = Format.table) -> None:
    """Suspend a tenant: its keys are refused, nothing starts, and due triggers wait."""
    _change(tenant, {"status": "suspended"}, output)


@app.command()
def freeze(tenant: Slug, output: Output = Format.table) -> None:
    """Freeze a tenant: its keys can only read, and due firings are skipped."""
    _change(tenant, {"status": "frozen"}, output)


@app.command()
def resume(tenant: Slug, output: Output = Format.table) -> None:
    """Resume a suspended or frozen tenant."""
    _change(tenant, {"status": "active"}, output)


@keys.command("list")
def list_keys(
    tenant: Slug, limit: Limit = 50, everything: All = False, output: Output = Format.table
) -> None:
    """List a tenant's keys, newest first, revoked ones too."""
    rows = connect().rows(f"{_path(tenant)}/keys", limit=None if everything else limit + 1)
    print_rows(page_of(rows, limit=limit, everything=everything), _KEY_COLUMNS, output=output)


@keys.command("create")
def create_key(
    tenant: Slug,
    name: Annotated[str, typer.Argument(help="Name for people: who uses the key, and where.")],
    scopes: Annotated[
        list[str], typer.Option("--scope", help="Scope: read, write, worker or admin; may be repeated.")
    ] = ["read", "write"],  # noqa: B006 - typer copies it
    expires_at: Annotated[str | None, typer.Option(help="When the key expires; never by default.")] = None,
    rate_per_second: Annotated[int | None, typer.Option(help="Most API calls per second.")] = None,
    output: Output = Format.table,
) -> None:
    """Create a key; its text is printed this once."""
    body = {"name": name, "scopes": scopes, "expires_at": expires_at, "rate_per_second": rate_per_second}
    print_object(connect().send("POST", f"{_path(tenant)}/keys", body), output=output)


@keys.command()
def revoke(
    tenant: Slug,
    prefix: Annotated[str, typer.Argument(help="Prefix of the key: the text between ck_ and the next _.")],
) -> None:
    """Refuse a key from now on, for good."""
    connect().send("DELETE", f"{_path(tenant)}/keys/{_part(prefix)}")
    say(f"{prefix} is revoked.")


def _change(tenant: str, body: dict[str, Any], output: Format) -> None:
    print_object(connect().send("PATCH", _path(tenant), body), output=output)


def _path(tenant: str) -> str:
    return f"/installation/tenants/{_part(tenant)}"


def _part(text: str) -> str:
    if not text or text.startswith("."):
        raise Misuse(f"{text!r} cannot be part of a path; `carillon tenants list` shows the tenants.")
    return quote(text, safe="")


def _fields(given: list[str] | None) -> dict[str, Any]:
    """``weight=200`` as a field: JSON, or else a text."""
    fields: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise Misuse(f"--set wants FIELD=VALUE, such as weight=200; it is {text!r}.")
        if name in fields:
            raise Misuse(f"--set names {name} twice.")
        try:
            fields[name] = json.loads(value)
        except (ValueError, RecursionError):
            fields[name] = value
    return fields
