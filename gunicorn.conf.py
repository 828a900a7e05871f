"""How the web process is served. gunicorn reads this file when it is started in this directory, so that the plain
``gunicorn scheduler_project.wsgi:application`` is the right command line. Options on the command line win.

``WEB_CONCURRENCY`` sets the number of processes, ``PORT`` the port on all addresses.
"""

import os
import resource
from pathlib import Path

from scheduler_project.environment import load

_platform, _engine = load()

_port = os.environ.get("PORT")
# Loopback unless PORT is set: the proxy handles TLS and decides which callers get in.
bind = f"0.0.0.0:{_port}" if _port else "127.0.0.1:8000"

# An event stream or a waiting claim holds a thread for up to a minute. There are threads for all calls that may wait,
# and some for the rest. Connections that have not sent a whole request hold no thread, and are bounded in number and
# time.
worker_class = "scheduler_project.web.worker.Worker"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
threads = _engine.long_polls + 8
worker_connections = 2000
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _most))

# The proxies that are trusted to say that a call came over TLS. No header sets the path of a call.
forwarded_allow_ips = ",".join(map(str, _platform.trusted_proxies))
forwarder_headers = ""

# Seconds after which a process whose event loop does not turn is killed. No request comes near the limit: they run in
# threads.
timeout = 30
# Requests may go on this long after SIGTERM. Streams are cut: their clients connect again and miss nothing.
graceful_timeout = 10
# Longer than most proxies keep an idle connection, so that the proxy closes it and no request meets a closing one.
keepalive = 75

# A disk that stalls must not look like a process that hangs.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
control_socket_disable = True
