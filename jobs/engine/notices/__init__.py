"""Notices: a beat reads the event feed on and makes triggers for the notices that tenants ask for
(docs/notices.md).

The feed has each event once and in order. The place in it, the notices, and the pause of a job that keeps dying are one
transaction. So each event is decided once: a beat that dies in the middle leaves nothing, and two at once take turns.
Jobs without ``notify`` pay nothing, and nothing is done while triggers run. The ends of notices are in the feed too,
but no notice tells of them: there are no loops.
"""

from jobs.engine.notices.notifier import notify

__all__ = ("notify",)
