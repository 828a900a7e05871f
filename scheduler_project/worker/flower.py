"""Flower, closed where its own defaults are open: its figures need the login, and it listens on this machine alone.

By default Flower's ``/metrics`` shows job types, workers' names and counts to every caller. Without ``--address`` it
listens everywhere, and any site may frame its pages. Celery's command loads Flower before the application; the
application's import then closes it for ``celery -A scheduler_project flower``. ``/healthcheck`` says "OK" to every
caller, and no more.
"""

import sys
from typing import Any

LOOPBACK = "127.0.0.1"


def close() -> None:
    """Close Flower in a process that has loaded it; elsewhere do nothing."""
    if "flower.command" not in sys.modules:
        return
    from flower.api import BaseApiHandler
    from flower.views import BaseHandler
    from flower.views.monitor import Metrics
    from tornado.options import options
    from tornado.web import authenticated

    given = BaseHandler.set_default_headers

    def set_default_headers(self: Any) -> None:
        given(self)
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Content-Security-Policy", "frame-ancestors 'none'")

    BaseHandler.set_default_headers = set_default_headers
    # As for its API: not without a login, and also not where no login is set.
    Metrics.prepare = BaseApiHandler.prepare
    Metrics.unauthenticated_api = property(lambda self: False)
    Metrics.get = authenticated(Metrics.get)
    options.address = LOOPBACK  # the environment and the command line can change it after this
