"""Notices: reading the event feed on, a beat makes triggers of what somebody asks for (docs/notifications.md).

The feed has each event once and in order; the place in it, the notices, and the pause of a job that keeps dying are one
transaction. So each event is judged once: a beat that dies in the middle leaves nothing, and two at once take turns.
Jobs without ``notify`` pay nothing, and nothing is done while triggers run. What becomes of notices themselves is
in the feed too but is never told of: there are no loops.
"""

from jobs.engine.notices.notifier import notify

__all__ = ("notify",)
