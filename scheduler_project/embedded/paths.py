"""Where the embedded servers live: a pure function of the data directory, so no state file can go stale.

The data directory is private to its owner (0700). Each server keeps its socket inside its own directory
there, so other local users cannot reach it::

    lock              held by the process that owns the servers
    secret-key        made once; also flower-password
    postgres/         PGDATA and Postgres' socket
    redis/            append-only file and Redis' socket
    log/              the output of the servers
    run/              processes.json of ``manage.py up``

The kernel limits a socket's path to about 100 bytes. A data directory too deep for that is reached through
a symbolic link under ``/tmp`` (``reach_sockets``). The name of the link is also a function of the directory.
"""

import hashlib
import os
import secrets
import stat
from pathlib import Path
from urllib.parse import quote

POSTGRES_SOCKET = ".s.PGSQL.5432"
REDIS_SOCKET = "redis.sock"
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
MAX_SOCKET_PATH_BYTES = 99
# Not tempfile.gettempdir(): that obeys TMPDIR, and two terminals must agree on the name.
SHARED_TEMP_DIR = Path("/tmp")  # noqa: S108 - the link's owner is checked before use


def embedded_database_url(data_dir: Path) -> str:
    """The libpq URL of the Postgres that belongs to ``data_dir``, whether or not it runs."""
    return f"postgresql://carillon@/carillon?host={quote(str(_socket_base(data_dir) / 'postgres'), safe='')}"


def embedded_redis_url(data_dir: Path) -> str:
    """The ``unix://`` URL of the Redis that belongs to ``data_dir``, whether or not it runs."""
    return f"unix://{quote(str(_socket_base(data_dir) / 'redis' / REDIS_SOCKET))}?db=0"


def secret_key(data_dir: Path) -> str:
    """Django's secret key, made on first use and kept in the data directory."""
    return kept_secret(data_dir, "secret-key")


def kept_secret(data_dir: Path, name: str) -> str:
    """The random text kept in the file ``name`` (0600) of ``data_dir``, made on first use.

    Safe when several processes ask at once: all of them return the one that was linked first.
    """
    kept = data_dir.resolve() / name
    if not kept.exists():
        ensure_data_dir(data_dir)
        draft = kept.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, kept)
        except FileExistsError:
            pass  # another process was first; its secret is the one to use
        finally:
            draft.unlink()
    return kept.read_text()


def ensure_data_dir(data_dir: Path) -> Path:
    """Make ``data_dir`` if it is missing, close it to other users and return it resolved.

    Raises ``PermissionError`` when it belongs to another user.
    """
    resolved = data_dir.resolve()
    resolved.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = resolved.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(
            f"The data directory {resolved} belongs to user {found.st_uid}, not to {os.geteuid()}: "
            "run as that user or give another --data-dir (CARILLON_DATA_DIR)."
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        resolved.chmod(0o700)
    return resolved


def reach_sockets(data_dir: Path) -> Path | None:
    """Make and return the link to a ``data_dir`` that is too deep for its sockets' paths; may be repeated.

    None when no link is needed.

    Raises ``PermissionError`` when another user holds the name.
    """
    resolved, base = data_dir.resolve(), _socket_base(data_dir)
    if base == resolved:
        return None
    try:
        base.symlink_to(resolved)
    except FileExistsError:
        # In a sticky directory only root and the owner can replace a link: a link of ours stays right.
        if base.lstat().st_uid != os.geteuid() or not base.is_symlink() or base.readlink() != resolved:
            raise PermissionError(
                f"{base} is not our link to {resolved}: remove it or use a shorter path"
            ) from None
    return base


def _socket_base(data_dir: Path) -> Path:
    resolved = data_dir.resolve()
    if len(os.fsencode(resolved / "postgres" / POSTGRES_SOCKET)) <= MAX_SOCKET_PATH_BYTES:
        return resolved
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:16]
    return SHARED_TEMP_DIR / f"carillon-{os.geteuid()}-{digest}"
