"""``manage.py up``: everything in one terminal; see ``scheduler_project.processes.up``."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from scheduler_project.processes.up import UpError, UpOptions, up
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Run web, beats, workers and Flower here; also Postgres and Redis unless their URLs are set."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host", default="127.0.0.1", help="Address of web and Flower (default %(default)s)."
        )
        parser.add_argument(
            "--port", type=int, default=8000, help="Port of web; 0: any free (default %(default)s)."
        )
        parser.add_argument(
            "--flower-port", type=int, default=5555, help="Port of Flower; 0: any free (default %(default)s)."
        )
        parser.add_argument("--no-flower", action="store_true", help="Do not run Flower.")
        parser.add_argument(
            "--workers", type=int, default=1, help="Number of worker processes (default %(default)s)."
        )
        parser.add_argument(
            "--beats", type=int, default=1, help="Number of beats, of which one leads (default %(default)s)."
        )
        parser.add_argument(
            "--concurrency", type=int, help="Pool processes of each worker (default: the cores)."
        )
        parser.add_argument(
            "--data-dir", type=Path, help="Directory of embedded servers' data (default CARILLON_DATA_DIR)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            up(
                UpOptions(
                    data_dir=options["data_dir"] or settings.PLATFORM.data_dir,
                    host=options["host"],
                    port=options["port"],
                    flower_port=None if options["no_flower"] else options["flower_port"],
                    workers=options["workers"],
                    beats=options["beats"],
                    concurrency=options["concurrency"],
                )
            )
        except UpError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stderr.write("Stopped while starting.")
