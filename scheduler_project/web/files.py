"""A static file's address depends on its content, so browsers may keep the file and still get a new release's file."""

import hashlib
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage


class VersionedFiles(StaticFilesStorage):
    """Addresses such as ``/static/console/times.js?v=1f2e3d4c``; a file that does not exist gets no version."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        version = _version(name or "")
        return f"{address}?v={version}" if version else address


@cache
def _version(name: str) -> str:
    path = finders.find(name)
    if not isinstance(path, str) or not Path(path).is_file():
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]
