"""A batch is left to itself once its loop has gone round, and no outcome is lost meanwhile."""

from collections.abc import Callable
from typing import Any

from jobs.handlers.outcome import Outcome
from jobs.handlers.post import TURNS, Post

DONE = Outcome("succeeded")


class Loop:
    """Turns of a loop, by hand."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, function: Callable[..., None], *args: Any) -> None:
        self._soon.append(lambda: function(*args))

    call_soon_threadsafe = call_soon

    def turn(self) -> None:
        due, self._soon = self._soon, []
        for function in due:
            function()


def test_a_batch_is_left_after_some_turns_of_the_loop(make_context) -> None:
    loop, late, last = Loop(), [], []
    post = Post(loop)
    post.leave(lambda ctx, outcome: late.append(ctx.fence), lambda: last.append("end"))
    for nth in range(TURNS):
        loop.turn()
        post.put([(make_context(fence=nth), DONE)])
        assert not post.left
    loop.turn()
    assert post.left
    post.put([(make_context(fence=100), DONE)])
    post.end()
    assert (late, last) == ([100], ["end"])
    boxed = [post.next(None, 0.1, float("inf")) for _ in range(TURNS + 1)]
    assert [[ctx.fence for ctx, _ in items] for items in boxed] == [[nth] for nth in range(TURNS)] + [[]]
    assert post.box.empty()


def test_a_batch_that_ends_before_it_is_left_says_so_in_the_box(make_context) -> None:
    loop = Loop()
    post = Post(loop)
    post.leave(lambda *_: None, None)
    loop.turn()
    post.end()
    assert post.next(None, 0.1, float("inf")) is None
