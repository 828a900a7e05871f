"""Is anything known against what is locked? Exit code 0: no; 1: yes; 2: nobody could be asked, for one package or all.

pip-audit passes over what it could not ask about, and then says that nothing is known. Here that is a failure of its
own, so that a machine without the network never looks like one without advisories.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMAND = [
    "-m",
    "pip_audit",
    "--disable-pip",
    "--require-hashes",
    "--progress-spinner",
    "off",
    "--format",
    "json",
]
NONE, KNOWN, UNASKED = 0, 1, 2


def judge(dependencies: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """The exit code and what to say, from pip-audit's answer."""
    found = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no release'}"
        for one in dependencies
        for flaw in one.get("vulns", [])
    ]
    unasked = [one for one in dependencies if "skip_reason" in one]
    asked = len(dependencies) - len(unasked)
    told = [*found, f"{asked} packages asked about, {len(found)} advisories"]
    if unasked or not dependencies:
        told.append(f"NOT AUDITED: {len(unasked)} packages; is the advisories' server within reach?")
    return (KNOWN if found else UNASKED if unasked or not dependencies else NONE), told


def main() -> int:
    files = [part for name in sorted(HERE.glob("*.txt")) for part in ("-r", str(name))]
    asked = subprocess.run(  # noqa: S603
        [sys.executable, *COMMAND, *files], capture_output=True, text=True, check=False
    )
    try:
        dependencies = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        sys.stdout.write(f"{asked.stderr.strip()[-2000:]}\nNOT AUDITED: pip-audit gave no answer\n")
        return UNASKED
    code, told = judge(dependencies)
    sys.stdout.write("\n".join(told) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
