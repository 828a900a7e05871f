"""No gate blocks in a calm system, and no gate is without a test of its own."""

from importlib import import_module
from pathlib import Path
from typing import Any

from jobs.explain import GATE_NAMES, explain_trigger
from tests.explain.asking import explain, passed
from tests.factories import MINUTE, make_job, make_trigger, now


class TestNoGate:
    def test_blocks_for_a_due_trigger_in_a_calm_system(self) -> None:
        trigger = make_trigger()
        explained = explain(trigger)
        assert tuple(gate.name for gate in explained.gates) == GATE_NAMES
        assert explained.summary == "No gate blocks it: the leader's next turn takes it."
        passed(trigger)

    def test_is_asked_about_with_more_than_three_statements(self, django_assert_num_queries: Any) -> None:
        trigger = make_trigger()
        tenant = trigger.tenant
        with django_assert_num_queries(3):
            explain_trigger(tenant=tenant, trigger_id=trigger.id)

    def test_blocks_but_others_go_first(self) -> None:
        job = make_job()
        early = make_trigger(job, due_at=now() - MINUTE)
        late = make_trigger(make_job(job.tenant))
        assert explain(early).fact.ahead == 0
        assert "after 1 trigger due before it" in explain(late).summary

    def test_blocks_for_long_without_a_hint_at_the_broker(self) -> None:
        assert "/readyz" in explain(make_trigger(due_at=now() - MINUTE)).summary


def test_every_gate_has_a_test_of_its_own() -> None:
    names = {"".join(part.capitalize() for part in name.split("_")) for name in GATE_NAMES}
    modules = (
        import_module(f"{__package__}.{path.stem}") for path in Path(__file__).parent.glob("test_*.py")
    )
    assert {f"Test{name}" for name in names} <= {name for module in modules for name in vars(module)}
