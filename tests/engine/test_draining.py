"""A stop that hangs still ends the process, and logs where it hung."""

import subprocess
import sys

from stage.processes import PROJECT_DIR

#: A process of a pool that runs for ever, and one that waits for it.
PROGRAM = """
import os, time
import django

django.setup()
from jobs.engine.worker import draining

reader, writer = os.pipe()

def hang_as_a_child():
    draining.tell_on_signal()
    os.write(writer, b".")
    while True:
        time.sleep(60)

if not (child := os.fork()):
    hang_as_a_child()
os.read(reader, 1)
print(child, flush=True)
draining.end_after(0.1, children=lambda: [child])
os.waitpid(child, 0)
time.sleep(60)
"""


def test_a_stop_that_hangs_is_ended_and_says_where_each_process_stood() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=PROJECT_DIR,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert "stop takes too long" in told
    assert f"processes=[{done.stdout.split()[0]}]" in told
    assert "in hang_as_a_child" in told, "of the child"
    assert "in <module>" in told, "of the one that waited"
