"""Wake-ups: tell sleeping beats that there is work they could not know of (DESIGN §6.5).

A beat sleeps until the next trigger it knows of falls due, and at most ``CARILLON_MAX_SLEEP_MS``. A process that
commits work due before that sends one empty message over Redis Pub/Sub, or Postgres' NOTIFY where there is no Redis.
The beats that lead then look again.

A wake-up carries nothing and proves nothing. One too many costs a turn that finds nothing. A lost one, because Redis is
away or a beat was not listening, costs the rest of the beat's sleep. So sending never fails, never waits long and is
never repeated. A burst of any size is few messages and few turns: see ``channel.COALESCE_SECONDS``.
"""

from jobs.wakeups.listener import Listener
from jobs.wakeups.pull_notifier import PullNotifier, the_pull_notifier
from jobs.wakeups.sender import wake_beats, wake_pull_workers
from jobs.wakeups.sleep import Sleep

__all__ = ("Listener", "PullNotifier", "Sleep", "the_pull_notifier", "wake_beats", "wake_pull_workers")
