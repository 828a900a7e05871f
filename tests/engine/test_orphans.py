"""A process of a pool ends with its worker, also where the worker dies before Celery asks the kernel for that."""

import os
import signal

import pytest

from stage.processes import run_python

#: A worker forks a process of its pool, which is prepared when the worker is dead, or beside it.
PROGRAM = """
import os, signal, sys, time
import django

django.setup()
from celery.signals import worker_init, worker_process_init
from scheduler_project import celery

celery._connected = celery._guard = lambda *_: None
worker_process_init.receivers.clear()

class Worker:
    from celery.concurrency.prefork import TaskPool as pool_cls

worker_init.send(sender=Worker)
worker = os.getpid()
if not os.fork():
    while sys.argv[1] == "dies" and os.getppid() == worker:
        time.sleep(0.01)
    worker_process_init.send(sender="worker")
    print("goes on", flush=True)
    os._exit(0)
if sys.argv[1] == "dies":
    os.kill(worker, signal.SIGKILL)
os.wait()
"""


@pytest.mark.parametrize(
    ("worker", "ends", "says"), [("dies", -signal.SIGKILL, ""), ("lives", 0, "goes on\n")]
)
def test_a_pools_process_goes_on_only_beside_its_worker(worker: str, ends: int, says: str) -> None:
    done = run_python(["-c", PROGRAM, worker], environment=os.environ)
    assert (done.returncode, done.stdout) == (ends, says), done.stderr
