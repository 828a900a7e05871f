"""Promises about time: how late firings start in calm and after each fault, and how soon all is well again."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from chaos.history import JobMade, Probed
from chaos.judge.arrivals import Arrival
from chaos.judge.case import Case
from chaos.judge.executions import Repeats, in_flight
from chaos.judge.limits import (
    AWAY_SHARE,
    LATE_SECONDS,
    PROBES,
    RESUME_SECONDS,
)
from chaos.judge.verdict import Breach, Figures
from chaos.judge.windows import Episode
from chaos.judge.workflows.runs import NEVER
from chaos.judge.workflows.steps import steps
from chaos.judge.workflows.told import Told


@dataclass(frozen=True)
class Lag:
    """How late a firing first reached the receiver. ``due_at`` and ``started_at`` are seconds since 1970."""

    job: JobMade
    due_at: float
    started_at: float

    @property
    def seconds(self) -> float:
        return self.started_at - self.due_at

    @property
    def late_from(self) -> float:
        """When it was late, or started: a firing that was not late yet when a fault struck is late by that fault."""
        return self.due_at + min(self.seconds, LATE_SECONDS)


def lags(case: Case, runs: list[Told]) -> list[Lag]:
    """The lag of every required firing and task that started, where only the engine makes it wait; by due time.

    Firings and tasks that fell due before ``Began`` are left out.
    """
    found = []
    for job in case.jobs.values():
        if job.overlap_policy == "allow" and job.target != "poison" and not job.fault:
            for at in case.due(job):
                if case.began and at.timestamp() < case.began.at:
                    continue  # the processes were warming up
                if deliveries := case.firings.get((job.job_id, at)):
                    started_at = deliveries[0].at
                    found.append(Lag(job, case.due_at(job, at, started_at), started_at))
    for step in steps(runs):
        if not case.began or step.due_at >= case.began.at:
            found.append(Lag(step.job, step.due_at, step.started_at))
    return sorted(found, key=lambda lag: lag.due_at)


def percentile(values: list[float], share: float) -> float:
    """By nearest rank; 0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def figures(case: Case, runs: list[Told], breaches: list[Breach], repeats: Repeats) -> list[Figures]:
    """The calm first, then each episode."""
    groups: dict[float, list[Lag]] = defaultdict(list)
    all_lags = lags(case, runs)
    for lag in all_lags:
        groups[_begin(case, lag.late_from)].append(lag)
    counts: dict[float, Counter[str]] = defaultdict(Counter)
    for breach in breaches:
        counts[_begin(case, breach.at)][breach.kind] += 1

    def of(episode: Episode | None) -> Figures:
        begin = episode.struck_at if episode else 0.0
        return _figures(case, episode, groups[begin], all_lags, counts[begin], repeats)

    return [of(None), *map(of, case.episodes)]


def _begin(case: Case, at: float) -> float:
    episode = case.episode_at(at)
    return episode.struck_at if episode else 0.0


def _figures(
    case: Case,
    episode: Episode | None,
    own_lags: list[Lag],
    all_lags: list[Lag],
    counts: Counter[str],
    repeats: Repeats,
) -> Figures:
    seconds = [lag.seconds for lag in own_lags]
    windows = episode.windows if episode else ()
    return Figures(
        number=episode.number if episode else 0,
        name=windows[0].limits.name if windows else "calm",
        strikes=len(windows),
        struck_at=episode.struck_at if episode else (case.began.at if case.began else 0.0),
        healed_at=episode.healed_at if episode else 0.0,
        firings=len(own_lags),
        lost=counts["lost"] + counts["unrecorded"],
        doubled=counts["doubled firing"] + counts["doubled run"],
        repeated=sum(len(repeats[window.id]) for window in windows) + counts["executed twice"],
        in_flight=sum(in_flight(case, window) for window in windows),
        late=sum(late > LATE_SECONDS for late in seconds),
        latest_seconds=max(seconds, default=0.0),
        p50_seconds=percentile(seconds, 0.5),
        p99_seconds=percentile(seconds, 0.99),
        resumed_seconds=_resumed(all_lags, episode) if episode else 0.0,
        reclaimed_seconds=max((_reclaimed(case, window.id, repeats) for window in windows), default=0.0),
        api_p99_seconds=percentile(
            [_answered(probe) for probe in case.probes if case.episode_at(probe.at) is episode], 0.99
        ),
    )


def _answered(probe: Probed) -> float:
    """Seconds until the call was answered; a failed call counts as one that was never answered."""
    return probe.seconds if probe.status == 200 else NEVER


def calls(case: Case) -> Iterator[Breach]:
    """Another tenant's calls that took too long during a fault whose limits say how soon they are answered."""
    for window in case.windows:
        if (most := window.limits.api_seconds) is None:
            continue
        within = [probe for probe in case.probes if window.struck_at <= probe.at <= window.healed_at]
        for path in sorted({probe.path for probe in within}) or ["/"]:
            seconds = [_answered(probe) for probe in within if probe.path == path]
            p99 = percentile(seconds, 0.99)
            if len(seconds) < PROBES or p99 > most:
                before = [_answered(p) for p in case.probes if p.path == path and p.at < window.struck_at]
                detail = (
                    f"99 % of {len(seconds)} calls of GET {path} within {p99 * 1000:.0f} ms, {most * 1000:.0f} ms "
                    f"allowed of {PROBES} at least; {seconds.count(NEVER)} failed; "
                    f"{percentile(before, 0.99) * 1000:.0f} ms before"
                )
                away = seconds.count(NEVER) > AWAY_SHARE * len(seconds)
                yield Breach(
                    kind="no api" if away else "slow api",
                    at=window.struck_at,
                    job=f"GET {path}",
                    detail=detail,
                )


def _resumed(all_lags: list[Lag], episode: Episode) -> float:
    """Seconds from the heal until firings were on time again and the waiting ones were done."""
    last = episode.healed_at
    for lag in all_lags:
        if (
            lag.seconds > LATE_SECONDS
            and episode.struck_at <= lag.started_at
            and lag.due_at + LATE_SECONDS < episode.ends_at  # else the next fault made it late
        ):
            last = max(last, min(lag.started_at, episode.ends_at))
    return last - episode.healed_at


def _reclaimed(case: Case, window_id: str, repeats: Repeats) -> float:
    """The longest time from a strike to the next execution of a trigger that it had cut short.

    A later strike may have taken the message that was to begin that execution: the trigger was sent again, under a
    fence that no execution had. The time counts from the last strike then, and is at least the mean for each message.
    """
    window = next(window for window in case.windows if window.id == window_id)
    wanted = set(repeats[window_id])
    cut_short: dict[str, Arrival] = {}
    nexts: dict[str, Arrival] = {}
    for delivery in case.deliveries:
        trigger_id = delivery.request.trigger_id
        if trigger_id not in wanted:
            continue
        if delivery.at <= window.struck_at:
            cut_short[trigger_id] = delivery
        else:
            nexts.setdefault(trigger_id, delivery)

    def seconds(trigger_id: str, taken_up: Arrival) -> float:
        since = taken_up.at - window.struck_at
        later = [
            other.struck_at
            for other in case.windows
            if other.limits.reclaim_seconds and window.struck_at < other.struck_at < taken_up.at
        ]
        before = cut_short.get(trigger_id)
        unseen = taken_up.request.fence - before.request.fence - 1 if before else 0
        taken = min(unseen, len(later))
        return max(taken_up.at - later[-1], since / (taken + 1)) if taken > 0 else since

    return max((seconds(*each) for each in nexts.items()), default=0.0)


def bounds(case: Case, episodes: list[Figures]) -> Iterator[Breach]:
    """Figures beyond their limits."""
    calm, *faults = episodes
    if calm.latest_seconds > LATE_SECONDS:
        detail = f"{calm.latest_seconds:.1f} s in calm, {LATE_SECONDS:g} s allowed"
        yield Breach(kind="late", at=calm.struck_at, job="all", detail=detail)
    for each, episode in zip(faults, case.episodes, strict=True):
        limits = episode.windows[0].limits
        latest = each.latest_seconds if limits.late_share == 1 else each.p99_seconds
        if latest > limits.late_seconds:
            detail = f"{latest:.1f} s after {each.name}, {limits.late_seconds:g} s allowed"
            yield Breach(kind="late", at=each.struck_at, job="all", detail=detail)
        if each.resumed_seconds > RESUME_SECONDS:
            detail = f"{each.resumed_seconds:.1f} s after {each.name} was healed, firings were still late"
            yield Breach(kind="resumed late", at=each.healed_at, job="all", detail=detail)
        if limits.reclaim_seconds and each.reclaimed_seconds > limits.reclaim_seconds:
            detail = f"{each.reclaimed_seconds:.1f} s until what {each.name} cut short was taken up again"
            yield Breach(kind="reclaimed late", at=each.struck_at, job="all", detail=detail)
        if each.repeated > each.in_flight:
            detail = f"{each.repeated} executed again, {each.in_flight} were in flight"
            yield Breach(kind="executed twice", at=each.struck_at, job="all", detail=detail)


def shared_fate(case: Case, runs: list[Told]) -> Iterator[Breach]:
    """Firings that were late by a fault although it does not touch their tenants (DESIGN §2.12).

    Only for faults that name the tenants they touch. A firing counts under the last strike before it was late.
    """
    groups: dict[str, list[Lag]] = defaultdict(list)
    for lag in lags(case, runs):
        window = case.window_at(lag.late_from)
        if window and window.affects is not None and not case.affected(window, lag.job.tenant):
            groups[window.id].append(lag)
    for window in case.windows:
        critical = [lag.seconds for lag in groups[window.id] if lag.job.priority == "critical"]
        most = window.limits.critical_seconds
        if most is not None and (p99 := percentile(critical, 0.99)) > most:
            detail = f"99 % of {len(critical)} critical firings within {p99:.2f} s, {most:g} s allowed ({window.what})"
            yield Breach(kind="late", at=window.struck_at, job="critical", detail=detail)
        late = [lag for lag in groups[window.id] if lag.seconds > window.others_seconds]
        share = percentile([lag.seconds for lag in groups[window.id]], window.limits.others_share)
        if share > window.others_seconds:
            worst = max(late, key=lambda lag: lag.seconds)
            detail = (
                f"{len(late)} of {len(groups[window.id])} firings of tenants that it does not touch were late, "
                f"this one by {worst.seconds:.1f} s, {window.others_seconds:g} s allowed ({window.what})"
            )
            yield Breach(kind="shared fate", at=window.struck_at, job=worst.job.name, detail=detail)
