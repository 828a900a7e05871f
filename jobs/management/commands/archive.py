"""``manage.py archive list|verify|restore``: the archived history. Exit code 1 if any of it is damaged."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.conf import engine_settings
from jobs.core.errors import CarillonError
from jobs.store import archive
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    _damaged = False
    help = "List, verify or restore the history that was archived before it was dropped; docs/operations.md."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="list|verify|restore")
        listing = what.add_parser("list", help="list the archives")
        listing.add_argument("--json", action="store_true", help="print one JSON object per line")
        verifying = what.add_parser("verify", help="read archives and verify their checksums")
        verifying.add_argument(
            "names", nargs="*", metavar="NAME", help="archives from the list; all by default"
        )
        restoring = what.add_parser("restore", help="copy the rows of an archive into a new table")
        restoring.add_argument("names", nargs="+", metavar="NAME", help="archives from the list")

    def handle(self, **options: Any) -> None:
        if not (url := engine_settings().archive_url):
            raise CommandError("CARILLON_ARCHIVE_URL: is not set, so nothing is archived")
        try:
            self._place = archive.Place(url)
            manifests, damaged = self._place.manifests()
            for error in damaged:
                self.stdout.write(f"DAMAGED: {error}")
            getattr(self, f"_{options['what']}")(manifests, options)
        except CarillonError as error:
            raise CommandError(str(error)) from None
        except archive.FAULTS as error:
            raise CommandError(f"CARILLON_ARCHIVE_URL: {url} cannot be read: {error}") from None
        if damaged or self._damaged:
            sys.exit(1)

    def _list(self, manifests: list[archive.Manifest], options: dict[str, Any]) -> None:
        for each in manifests:
            if options["json"]:
                self.stdout.write(json.dumps({"name": each.name} | asdict(each)))
                continue
            span = f"{each.since or 'the first'} to {each.until}"
            self.stdout.write(f"{each.name}  {span}  {each.rows:,} rows  {each.size / 1e6:,.1f} MB")
        if not manifests and not options["json"]:
            self.stdout.write("Nothing has been archived yet.")

    def _verify(self, manifests: list[archive.Manifest], options: dict[str, Any]) -> None:
        for each in _chosen(manifests, options["names"]):
            try:
                archive.verify(each, self._place)
                self.stdout.write(f"{each.name}: {each.rows:,} rows as they were written")
            except archive.Damaged as error:
                self._damaged = True
                self.stdout.write(f"DAMAGED: {error}")

    def _restore(self, manifests: list[archive.Manifest], options: dict[str, Any]) -> None:
        for each in _chosen(manifests, options["names"]):
            table = archive.restore(each, self._place)
            self.stdout.write(
                f"{each.name}: {each.rows:,} rows are in the table {table}, as they were written"
            )


def _chosen(manifests: list[archive.Manifest], names: Iterable[str]) -> list[archive.Manifest]:
    by_name = {each.name: each for each in manifests}
    if unknown := [name for name in names if name not in by_name]:
        raise CommandError(f"There is no archive {unknown[0]}; `archive list` shows the archives.")
    return [by_name[name] for name in names] or manifests
