"""The limits of each fault: those of the table in docs/chaos.md, which no run can change."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of one kind of fault.

    ``late_seconds``: how late ``late_share`` of the firings may start that fall due during it or after it.
    ``may_repeat``: triggers that were in flight may be executed once more. ``may_outlive``: a worker may lose its lease
    and still be at work, so that the receiver sees two executions at once, or an older fence after a newer one.
    ``sudden``: its victims are the executions it found when it struck, not those that begin later, however long it
    lasts. ``reclaim_seconds``: how soon an execution that was cut short is taken up again. ``by_jobs``: it strikes each
    time a poison job is executed, and not in between. ``may_lose``: acknowledged writes may be gone, and any promise
    with them: breaches from then on are only counted. ``critical_seconds``: how late 99 % of the critical firings of
    tenants that it does not touch may start. ``others_share``: the share of the firings of tenants that it does not
    touch that must not be late. ``ends_process``: a strike that kills ends a worker process, and the triggers that the
    process had claimed, of any tenant, may be executed again. ``api_seconds``: the time within which 99 % of another
    tenant's calls are answered; each of them is timed.
    """

    name: str
    late_seconds: float
    may_repeat: bool = True
    may_outlive: bool = False
    sudden: bool = False
    reclaim_seconds: float | None = None
    late_share: float = 1.0
    by_jobs: bool = False
    may_lose: bool = False
    critical_seconds: float | None = None
    others_share: float = 1.0
    ends_process: bool = False
    api_seconds: float | None = None


#: Later than this is late. The lag bench, alone on its machine, shows the promise for calm (p99 within 500 ms).
LATE_SECONDS = 2.0
#: A tenant that a fault does not touch is never later than this (DESIGN §2.12), even if other tenants' rows are hit.
OTHERS_SECONDS = 2.0
#: The same bound where the leader itself must change.
OTHERS_LEADER_SECONDS = 15.0
#: A poison job kills this many workers and then no more.
POISON_CRASHES = 3
#: Lease, or the deadline of an unclaimed message (30 s each); the reaper's turn (1 s) and the back-off (1 s).
RECLAIM_SECONDS = 35.0
#: The leader's lease (10 s), a third of it for a standby to look, and the firings that waited meanwhile.
LEADER_SECONDS = 20.0
#: From the heal until all is well again: promise 9.
RESUME_SECONDS = 60.0
#: From the return of Postgres until it serves.
SERVING_SECONDS = 10.0
OF_FAULT = {
    1: Limits("worker dies", RECLAIM_SECONDS, sudden=True, reclaim_seconds=RECLAIM_SECONDS),
    2: Limits("leader dies", LEADER_SECONDS, may_repeat=False),
    3: Limits("leader freezes", LEADER_SECONDS, may_repeat=False),
    # The triggers it holds are taken from it as if it were dead.
    4: Limits("worker freezes", RECLAIM_SECONDS, sudden=True, may_outlive=True),
    5: Limits("Postgres crashes", 15 + SERVING_SECONDS, sudden=True),
    6: Limits("Postgres hangs", 20 + SERVING_SECONDS, sudden=True, may_outlive=True),
    # Away for 5 s, and in every other run for 3 more.
    7: Limits("Postgres fails over", 8 + SERVING_SECONDS, may_outlive=True),
    8: Limits("Redis forgets", RESUME_SECONDS, may_repeat=False),
    9: Limits("partition", 30 + RESUME_SECONDS, sudden=True, may_outlive=True),
    10: Limits("clock skew", 2, may_repeat=False),
    11: Limits("disk full", 20 + RESUME_SECONDS, may_outlive=True),
    12: Limits("slow database", 20 + RESUME_SECONDS, may_outlive=True),
    13: Limits("bad sink", 2, may_repeat=False, late_share=0.99),
    # Beats and workers die in turn, seconds apart. A worker's lease (or a message's deadline) runs for 30 s; if the
    # leader was killed just before that is over, a new leader is needed before any beat reaps.
    14: Limits(
        "crash points", RECLAIM_SECONDS + LEADER_SECONDS, reclaim_seconds=RECLAIM_SECONDS + LEADER_SECONDS
    ),
    15: Limits("rolling deploy", 5, may_repeat=False),
    16: Limits("poison job", RECLAIM_SECONDS, by_jobs=True),
    17: Limits("asynchronous failover", 8 + SERVING_SECONDS, may_outlive=True, may_lose=True),
    # From here on a fault names the tenants it touches: these limits are theirs. The others' are OTHERS_SECONDS.
    20: Limits("row lock", 60 + RECLAIM_SECONDS, may_outlive=True),
    # Claims write to the partition that is locked for 20 s.
    21: Limits("table lock, old snapshot", 20 + SERVING_SECONDS, may_outlive=True),
    # A publish and the answer to a worker that asks: each 2 s, and the connections that either needs.
    22: Limits("slow servers", 10, may_repeat=False),
    23: Limits("bad handler", 60 + RECLAIM_SECONDS, may_outlive=True, ends_process=True),
    24: Limits("bad names", RECLAIM_SECONDS, may_repeat=False),
    25: Limits("bad tenant", RESUME_SECONDS, may_repeat=False),
    26: Limits("crowd of tenants", RESUME_SECONDS, may_repeat=False, critical_seconds=0.5),
    # Leases are over, or go on, by that clock; firings that fall due in the minute it skips are due at once.
    27: Limits("time itself", LEADER_SECONDS, may_repeat=False),
    28: Limits("embedded servers die", SERVING_SECONDS + LATE_SECONDS, sudden=True),
    29: Limits("hostile tenant", RESUME_SECONDS, may_repeat=False, others_share=0.99, api_seconds=0.25),
    30: Limits("host of web or beat cut off", LEADER_SECONDS, may_repeat=False),
    # The triggers it holds are taken from it as if it were dead.
    31: Limits("host of workers cut off", RECLAIM_SECONDS, sudden=True, may_outlive=True),
    # Away for 30 s. Packets that were lost are sent again after ever longer waits: up to as long again.
    32: Limits("database's host cut off", 30 + 30, sudden=True, may_outlive=True),
}

#: Where more calls than this share fail, the API is not slow but away.
AWAY_SHARE = 0.1
#: Fewer calls than this do not show a promise about 99 in 100.
PROBES = 100
EARLY_SECONDS = 0.05
#: To list a family of processes and kill all of it, or to reset each connection of a link.
SUDDEN_SECONDS = 0.5
#: From an answer the receiver has sent to the outcome's commit: a flush every 100 ms, and a small machine.
FINISH_SECONDS = 1.0
#: A firing younger than this when the log was read is not required yet.
TOLERANCE_SECONDS = 5.0
#: A trigger that a worker had claimed when a pause was acknowledged still starts.
CLAIMED_SECONDS = 2.0
#: A breach up to this long before acknowledged writes were lost may come from the loss.
LOST_SECONDS = 15.0
