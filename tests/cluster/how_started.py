"""A program that prints, as it exits, how it was started, and exits with 3; with the argument ``stay`` it stays."""

import atexit
import json
import os
import signal
import sys
import time

if sys.argv[1:] == ["stay"]:
    time.sleep(600)
interrupted = signal.getsignal(signal.SIGINT)
started = {
    "pid": os.getpid(),
    "parent": os.getppid(),
    "leads_its_session": os.getsid(0) == os.getpid(),
    "arguments": sys.argv[1:],
    "variables": [os.environ.get(name) for name in ("FOR_ALL", "FOR_ONE")],
    "read": sys.stdin.read(),
    "files": [number for number in range(100) if os.path.exists(f"/proc/self/fd/{number}")],
    "interrupted_by": getattr(interrupted, "__name__", str(interrupted)),
    "imported": "celery" in sys.modules,
}
atexit.register(print, json.dumps(started))
sys.exit(3)
