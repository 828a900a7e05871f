"""Levers: decisions of operators for all tenants, where code sets limits too (DESIGN §8)."""


def lower_cap(handlers: int | None, operators: int | None) -> int | None:
    """How many triggers of a job type may be in flight: the lower of the two caps. None: without limit.

    ``handlers``: ``max_in_flight`` of its handler or its declaration. ``operators``: the cap an operator set beside it.
    """
    return min((cap for cap in (handlers, operators) if cap is not None), default=None)
