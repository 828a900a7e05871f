"""The look-up of a key by its prefix, which most calls of the API wait for."""

from functools import cache
from typing import TypeVar

from django.db import connection
from django.db.models import Field, Model

from tenants.models import ApiKey, Tenant

M = TypeVar("M", bound=Model)
#: Django would take longer to write it, for each call, than Postgres to answer it.
_LIVE_KEY = """
    SELECT carillon_now(), {columns}
    FROM tenants_apikey AS key LEFT JOIN tenants_tenant AS tenant ON tenant.id = key.tenant_id
    WHERE key.prefix = %s AND key.revoked_at IS NULL
        AND (key.expires_at IS NULL OR key.expires_at > carillon_now())
        AND tenant.status IS DISTINCT FROM %s
"""


def find_live_key(prefix: str) -> ApiKey | None:
    """The key with that prefix, with its tenant and the database's time as ``now``.

    None if it is revoked or has expired by that time, and if its tenant is suspended.
    """
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [prefix, Tenant.Status.SUSPENDED])
        row = cursor.fetchone()
    if row is None:
        return None
    now, *values = row
    of_key = len(ApiKey._meta.concrete_fields)
    key = _made(ApiKey, values[:of_key])
    if key.tenant_id is not None:
        key.tenant = _made(Tenant, values[of_key:])
    key.now = now  # type: ignore[attr-defined]
    return key


@cache
def _statement() -> str:
    columns = [
        f'{table}."{field.column}"'
        for table, model in (("key", ApiKey), ("tenant", Tenant))
        for field in model._meta.concrete_fields
    ]
    return _LIVE_KEY.format(columns=", ".join(columns))


def _made(model: type[M], values: list[object]) -> M:
    fields = model._meta.concrete_fields
    return model.from_db(connection.alias, [field.attname for field in fields], [*map(_read, fields, values)])


def _read(field: Field, value: object) -> object:  # type: ignore[type-arg]
    read = getattr(field, "from_db_value", None)
    return read(value, None, connection) if read else value
