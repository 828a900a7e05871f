"""A job type that a bad deploy breaks, in the workers of a drill."""

import os
from pathlib import Path
from typing import Any

from jobs.handlers import Context, job_type


@job_type("drill.report")
def report(ctx: Context, payload: dict[str, Any]) -> None:
    """Fails as long as there is a file ``bad-deploy`` in the data directory: the new version's fault."""
    if (Path(os.environ["CARILLON_DATA_DIR"]) / "bad-deploy").exists():
        raise TypeError("render() missing 1 required positional argument: 'locale'")
