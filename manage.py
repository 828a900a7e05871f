#!/usr/bin/env python
"""Django's command-line entry point."""

import argparse
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    # Settings depend on the data directory, and Django loads them before a command sees its options.
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--data-dir")
    if data_dir := early.parse_known_args()[0].data_dir:
        os.environ["CARILLON_DATA_DIR"] = data_dir
    from django.core.management import execute_from_command_line

    from scheduler_project.processes.acting import act_as_command

    act_as_command(sys.argv)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
