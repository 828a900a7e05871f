"""``manage.py demo``: see ``scheduler_project.demo``."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console

from scheduler_project.demo.runner import Demo, DemoOptions
from scheduler_project.demo.system import DemoError, enter_own_environment
from scheduler_project.embedded.paths import ensure_data_dir
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Run everything with sample tenants and jobs against a local receiver, and show the results."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--seconds", type=int, help="Stop after this time, judge every firing, fail if one went wrong."
        )
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=Path(".carillon/demo"),
            help="Directory of the demo's own data (default %(default)s).",
        )
        parser.add_argument(
            "--port", type=int, default=8000, help="Port of web; if in use, a free one (default %(default)s)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        seconds = options["seconds"]
        if seconds is not None and seconds < 1:
            raise CommandError("--seconds must be at least 1.")
        try:
            data_dir = ensure_data_dir(options["data_dir"].expanduser())
        except OSError as error:
            raise CommandError(f"--data-dir cannot be used: {error}") from error
        enter_own_environment(data_dir=data_dir)
        lasts = timedelta(seconds=seconds) if seconds else None
        demo = Demo(
            DemoOptions(data_dir=data_dir, port=options["port"], lasts=lasts),
            console=Console(),
        )
        try:
            code = asyncio.run(demo.run())
        except DemoError as error:
            raise CommandError(str(error)) from error
        if code:
            sys.exit(code)
