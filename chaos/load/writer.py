"""A client of the API that writes as fast as it may: ``python -m chaos.load.writer URL JOB_ID RATE`` with ``API_KEY``.

Runs a job by hand RATE times a second, over a few connections, until it is killed. A call that fails is not repeated.
"""

import http.client
import os
import sys
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

CONNECTIONS = 8
TIMEOUT_SECONDS = 10.0


def write(url: str, job_id: str, *, every: float) -> None:
    """Ask again and again, at best once in ``every`` seconds."""
    address = urlsplit(url)
    headers = {"Authorization": f"Bearer {os.environ['API_KEY']}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=TIMEOUT_SECONDS)
    due = time.monotonic()
    while True:
        try:
            connection.request("POST", f"{address.path}/jobs/{job_id}/run", body="{}", headers=headers)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
        due = max(due + every, time.monotonic() - every)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    base, job, rate = sys.argv[1:4]
    for _ in range(CONNECTIONS):
        arguments = {"every": CONNECTIONS / float(rate)}
        threading.Thread(target=write, args=(base, job), kwargs=arguments, daemon=True).start()
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
