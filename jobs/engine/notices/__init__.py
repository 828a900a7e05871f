"""Notices: a beat goes on reading the event feed and makes triggers for the notices that tenants ask for
(docs/notices.md).

The feed has each event once and in order. One transaction writes the place in the feed, the notices, and the pause of a
job that keeps dying. So each event is decided once: a beat that dies in the middle leaves nothing, and two beats at
once take turns. Jobs without ``notify`` pay nothing, and nothing is done while triggers run. The ends of notices are in
the feed too, but no notice tells of them, so there are no loops.
"""

from jobs.engine.notices.notifier import notify

__all__ = ("notify",)
