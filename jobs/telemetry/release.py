"""Which release of Carillon a process runs: for people who compare processes after a deploy."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_MIGRATIONS = Path(__file__).parent.parent / "migrations"


@cache
def release() -> str:
    """``0.1.0, schema 7``: the package's version, where it is installed as one, and the last migration it knows."""
    schema = max(int(path.name[:4]) for path in _MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.py"))
    try:
        return f"{version('carillon')}, schema {schema}"
    except PackageNotFoundError:
        return f"schema {schema}"
