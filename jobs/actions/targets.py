"""Operators' rules for targets, the hosts that jobs call: rate, concurrency, pause (DESIGN §8).

The API, the admin and the commands write through these functions alone. Each may be repeated: it says what must hold,
and changes nothing if that holds already. Beats and workers go by a change within a second. Once a pause is committed,
no trigger for its targets starts any more.
"""

from dataclasses import replace
from typing import Any

from jobs.conf import engine_settings
from jobs.core.errors import Conflict, NotFound
from jobs.core.levers.targets import Rule, read_pattern, regex_of
from jobs.shapes.installation import TargetChanges, TargetShape
from jobs.store import db
from jobs.store.dispatch import targets
from jobs.store.trail import present_name
from jobs.wakeups import wake_beats

#: Each rule is looked at for each target that is met for the first time.
MAX_RULES = 500


def put_target(*, pattern: str, changes: object) -> dict[str, Any]:
    """Set the whole rule for a pattern, as JSON says; returns it as the API shows it.

    Raises ``InvalidInput``, ``Conflict`` where there are too many.
    """
    return _change(read_pattern(pattern), TargetChanges.read(changes), whole=True)


def change_target(*, pattern: str, changes: object) -> dict[str, Any]:
    """Change the fields that JSON names in the rule for a pattern, new or not; returns it as the API shows it.

    A rule that says nothing any more is removed. Raises ``InvalidInput``, ``Conflict`` where there are too many.
    """
    return _change(read_pattern(pattern), TargetChanges.read(changes), whole=False)


def delete_target(*, pattern: str) -> None:
    """Take an operator's rule away. Raises ``InvalidInput``, ``NotFound``; ``Conflict`` for one of the settings."""
    name = read_pattern(pattern)
    with db.atomic():
        targets.lock_rules()
        if name in _rows():
            targets.remove_rule(name)
            wake_beats()
            return
    if any(rule.pattern == name for rule in engine_settings().target_rules):
        raise Conflict(
            "This rule is one of the settings (CARILLON_TARGET_RATES, CARILLON_TARGET_RATE_PER_SECOND). Put a rule "
            "with the same pattern: it wins."
        )
    raise NotFound("There is no such rule.")


def representations() -> list[dict[str, Any]]:
    """All rules by pattern, operators' before those of the settings, as the API shows them."""
    shown = [_shown(row) for row in targets.rows()]
    seeds = [_seed(rule) for rule in engine_settings().target_rules]
    return sorted(shown + seeds, key=lambda each: (each["pattern"], each["source"]))


def _change(pattern: str, wanted: TargetChanges, *, whole: bool) -> dict[str, Any]:
    with db.atomic():
        targets.lock_rules()
        rows = _rows()
        before = targets.rule_of(rows[pattern]) if pattern in rows else Rule(pattern)
        after = _rule(Rule(pattern) if whole else before, wanted)
        if after != before:
            if after == Rule(pattern):
                targets.remove_rule(pattern)
            else:
                if pattern not in rows and len(rows) >= MAX_RULES:
                    raise Conflict(f"There are already {MAX_RULES} rules, which is the limit.")
                # A pause that stays keeps its actor.
                keeps = after.paused and after.reason == before.reason
                by = rows[pattern].paused_by if keeps else present_name() if after.paused else ""
                targets.put_rule(after, regex=regex_of(pattern), by=by)
            wake_beats()
        present = _rows().get(pattern)
        return _shown(present) if present else _seed(Rule(pattern))


def _rule(before: Rule, wanted: TargetChanges) -> Rule:
    told = wanted.model_dump(include=wanted.model_fields_set)
    if "paused" in told:
        told["reason"] = wanted.reason or ""
    return replace(before, **told)


def _rows() -> dict[str, Any]:
    return {row.pattern: row for row in targets.rows()}


def _shown(row: Any) -> dict[str, Any]:
    paused = row.paused_at is not None
    return TargetShape.of(row, source="operator", paused=paused, reason=row.pause_reason)


def _seed(rule: Rule) -> dict[str, Any]:
    source = "operator" if rule.set_by_operator else "settings"
    return TargetShape.of(rule, source=source, paused_at=None, paused_by="")
