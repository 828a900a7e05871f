"""The release of Carillon that a process runs: for people who compare processes after a deploy.

``pyproject.toml`` is the one home of the version. The server runs from a directory that has that file (a checkout, or
the image), so the version is read there: the metadata of an installation may be those of an older checkout.
"""

import tomllib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_MIGRATIONS = _ROOT / "jobs" / "migrations"


@cache
def version() -> str:
    """The version, such as ``0.1.0``."""
    return str(tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"])


@cache
def release() -> str:
    """``0.1.0, schema 7``: the version, and the last migration that it knows."""
    schema = max(int(path.name[:4]) for path in _MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.py"))
    return f"{version()}, schema {schema}"
