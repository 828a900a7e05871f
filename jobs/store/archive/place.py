"""The place of archives: a directory or a bucket (``CARILLON_ARCHIVE_URL``), by fsspec.

Each archive has two objects: ``<table>/<partition>.<token>.jsonl.gz`` has the rows, ``….json`` says what they are. The
second one is written last: an archive without it was never finished, and does not count. The token is drawn for each
archive: a leader that was frozen for an hour overwrites nothing that another has written meanwhile.
"""

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from jobs.core.errors import CarillonError

#: Errors of the operating system, and those that an object store raises beside them.
FAULTS: tuple[type[Exception], ...] = (OSError,)
with suppress(ImportError):
    from botocore.exceptions import BotoCoreError

    FAULTS = (OSError, BotoCoreError)
#: The most lines that are read at once.
PAGE = 1_000
_NAME = re.compile(r"[a-z0-9_]{1,50}\.[0-9a-f]{8}")


class Damaged(CarillonError):
    """An archive does not match its manifest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an archive. ``sha256``: of its lines before they were compressed; ``size``: in bytes after it.

    ``since`` and ``until``: the partition's bounds, RFC 3339; None: it had none. ``columns``: name -> type in Postgres.
    """

    table: str
    partition: str
    token: str
    since: str | None
    until: str
    rows: int
    size: int
    sha256: str
    key: tuple[str, ...]
    columns: dict[str, str]
    written_at: str

    @property
    def name(self) -> str:
        return f"{self.partition}.{self.token}"


class Place:
    """The directory or bucket at ``url``. Its calls raise ``FAULTS`` where it cannot be reached or written."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs  # seldom needed, and slow to import

        self._fs, self._root = url_to_fs(url, use_listings_cache=False)
        self._is_local = urlsplit(url).scheme == "file"

    def manifests(self) -> tuple[list[Manifest], list[Damaged]]:
        """The manifests of all archives, by table and by the time of their rows; and an error for each that is none."""
        found: list[Manifest] = []
        damaged: list[Damaged] = []
        if not self._is_local:
            self._fs.info(self._root.split("/")[0])  # a bucket that is not there would just list nothing
        for path in self._fs.glob(f"{self._root}/*/*.json"):
            try:
                found.append(self._read(path))
            except Damaged as error:
                damaged.append(error)
        return sorted(found, key=lambda each: (each.table, each.until, each.written_at)), damaged

    @contextmanager
    def writing(self, table: str, name: str) -> Iterator[Any]:
        """A file that takes the lines of an archive. It is there once the block has ended without an error."""
        with (
            self._object(f"{table}/{name}.jsonl.gz") as file,
            # Without a time and without a name, so that the same rows are the same bytes.
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        ):
            yield packed

    def keep(self, manifest: Manifest) -> None:
        """Write the manifest of an archive whose lines are there."""
        with self._object(f"{manifest.table}/{manifest.name}.json") as file:
            file.write(json.dumps(asdict(manifest), indent=2).encode())

    def size(self, table: str, name: str) -> int:
        """The size of an archive's lines, in bytes."""
        return int(self._fs.size(f"{self._root}/{table}/{name}.jsonl.gz"))

    def lines(self, manifest: Manifest) -> Iterator[list[bytes]]:
        """The lines of an archive, a page at a time. Raises ``Damaged``."""
        path = f"{self._root}/{manifest.table}/{manifest.name}.jsonl.gz"
        try:
            with self._fs.open(path, "rb") as file, gzip.open(file) as packed:
                while page := [line.rstrip(b"\n") for line in islice(packed, PAGE)]:
                    yield page
        except FileNotFoundError:
            raise Damaged(f"{manifest.name}: its rows are gone ({path})") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(f"{manifest.name}: its rows cannot be unpacked ({error})") from error

    def _read(self, path: str) -> Manifest:
        try:
            told = json.loads(self._fs.cat_file(path))
            found = Manifest(**told | {"key": tuple(told["key"])})
        except (ValueError, TypeError, KeyError) as error:
            raise Damaged(f"{path} is not the manifest of an archive ({error})") from error
        if not path.endswith(f"/{found.table}/{found.name}.json") or not _NAME.fullmatch(found.name):
            raise Damaged(f"{path} is the manifest of another archive, {found.table}/{found.name}")
        return found

    @contextmanager
    def _object(self, path: str) -> Iterator[Any]:
        """A new object. An error within the block leaves the object that was there before."""
        whole = f"{self._root}/{path}"
        if self._is_local:
            with _local_object(Path(whole)) as file:
                yield file
            return
        file = self._fs.open(whole, "wb", autocommit=False)
        try:
            yield file
            file.close()
        except BaseException:
            file.discard()
            raise
        file.commit()


@contextmanager
def _local_object(path: Path) -> Iterator[BinaryIO]:
    """A file that is on disk when the block has ended: the rows are dropped next, and a power cut must not take both.

    fsspec's own file would be written to the directory for temporary files first, which may be small.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
