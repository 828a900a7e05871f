"""Addresses of databases as settings want them."""

import psycopg.conninfo


def as_url(conninfo: str) -> str:
    """``host=… dbname=…`` as a URL."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    query = "&".join(f"{key}={parts[key]}" for key in ("host", "port") if parts.get(key))
    user, password = parts.get("user", ""), parts.get("password")
    credentials = f"{user}:{password}" if password else f"{user}"
    return f"postgresql://{credentials}@/{parts['dbname']}?{query}"
