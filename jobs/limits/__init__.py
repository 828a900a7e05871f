"""Rate limits that all processes share: token buckets in Redis, by Redis' clock (DESIGN §8, ADR 8).

Where there is no Redis they are in Postgres, by Postgres' clock (``over_postgres``, ADR 30); the rest is the same.

Each process keeps an account of every bucket that it uses, and answers from it. One thread exchanges the accounts with
Redis, many at a time: it reports the tokens spent here and learns the tokens spent by others. So no caller ever waits
for Redis longer than ``BUDGET_SECONDS`` in all, and no caller waits at all while Redis is slow.

These rules hold for a bucket of so many a second and so many at once:

* Redis answers in time: no more is spent than the bucket gives, however many processes dispatch. Tokens are held in
  Redis before they are spent, and tokens that are not spent are given back.
* Redis is slow: each process counts by itself meanwhile, and the accounts meet late. A single dispatcher stays exact.
  Each further one may spend up to one burst too many, which all of them save afterwards (up to ``DEBT_SECONDS``).
* Redis is away: each process counts by itself. Nothing stops, and nothing is let through uncounted. A new leader begins
  with full buckets.
"""

from jobs.limits.buckets import Account, Bucket, target_bucket, tenant_bucket
from jobs.limits.exchange import DEBT_SECONDS
from jobs.limits.rates import Admission, Rated, Rates
from jobs.limits.shared import ALONE, BUDGET_SECONDS, Buckets, RateStatus, counted_together, shared_buckets

__all__ = [
    "ALONE",
    "BUDGET_SECONDS",
    "DEBT_SECONDS",
    "Account",
    "Admission",
    "Bucket",
    "Buckets",
    "RateStatus",
    "Rated",
    "Rates",
    "counted_together",
    "shared_buckets",
    "target_bucket",
    "tenant_bucket",
]
