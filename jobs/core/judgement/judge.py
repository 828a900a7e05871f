"""Asks every rule whether all is well. The worst reason stands in the sentence."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobs.core.judgement.figures import Figures
from jobs.core.judgement.of_engine import RULES as OF_ENGINE
from jobs.core.judgement.of_engine import named
from jobs.core.judgement.of_work import RULES as OF_WORK
from jobs.core.judgement.reason import Level, Reason

#: In the order of their weight: between two reasons of one level, the earlier rule's reason comes first.
RULES: tuple[Callable[[Figures], Iterable[Reason]], ...] = (*OF_ENGINE, *OF_WORK)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reasons``: the worst first; empty: all is well. ``well``: the text that then describes the installation."""

    reasons: tuple[Reason, ...]
    well: str

    @property
    def level(self) -> Level:
        return self.reasons[0].level if self.reasons else Level.GREEN

    @property
    def sentence(self) -> str:
        """The sentence that an operator reads first."""
        match self.level:
            case Level.RED:
                return f"Not well: {self.reasons[0].text}."
            case Level.AMBER:
                return f"Needs a look: {self.reasons[0].text}."
        return f"All is well: {self.well}."


def judge(figures: Figures) -> Verdict:
    """Decide by every rule whether all is well."""
    found = [reason for rule in RULES for reason in rule(figures)]
    return Verdict(tuple(sorted(found, key=lambda reason: reason.level)), _what_holds(figures))


def _what_holds(figures: Figures) -> str:
    leads = f"{named(figures.leader.holder, 'a beat')} leads, " if figures.leader else ""
    workers = f"{len(figures.workers):,} worker{'' if len(figures.workers) == 1 else 's'}"
    served = len({name for worker in figures.workers for name in worker.takes})
    queues = f"{served:,} queue{'' if served == 1 else 's'}"
    serve = "serves" if len(figures.workers) == 1 else "serve"
    return (f"{leads}{workers} {serve} {queues}, " if figures.workers else leads) + "nothing is late"
