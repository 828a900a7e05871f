"""How a handler's end becomes an ``Outcome``; and the reports that its ``Context`` allows."""

import math
from datetime import timedelta
from decimal import Decimal

import pytest

from jobs.core.errors import InvalidInput
from jobs.handlers import Cancelled, HandlerError, Permanent, Response, RetryAfter
from jobs.handlers.outcome import outcome_of_exception, outcome_of_return, storable_text

RING: list = []
RING.append(RING)


class TestOutcomeOfReturn:
    @pytest.mark.parametrize("value", [{"a": [1, None, 2.5, True]}, [], "text", 0, False, 1.5])
    def test_keeps_json(self, value):
        assert (outcome_of_return(value).kind, outcome_of_return(value).result) == ("succeeded", value)

    def test_keeps_a_remote_answer_beside_the_result(self):
        ended = outcome_of_return(Response({"id": 5}, http_status=201, response_excerpt="made\x00"))
        assert (ended.result, ended.http_status, ended.response_excerpt) == ({"id": 5}, 201, "made\ufffd")

    @pytest.mark.parametrize(
        "value",
        [object(), {1, 2}, b"bytes", Decimal(1), math.nan, {"a": math.inf}, "nul\x00", {"k\x00": 1}, "\ud800",
         2**53 + 1, "x" * 65_536, {1: "key"}, RING, Response(object())],
    )  # fmt: skip
    def test_fails_a_value_that_cannot_be_kept_and_lets_it_be_retried(self, value):
        ended = outcome_of_return(value)
        assert (ended.kind, ended.error_code, ended.permanent) == ("failed", "bad_result", False)
        assert ended.result is None
        assert "return value cannot be stored" in ended.error_message


class TestOutcomeOfException:
    def test_keeps_class_message_and_the_tail_of_the_traceback(self):
        with pytest.raises(ValueError, match="the bottom") as caught:
            _deep(200)
        ended = outcome_of_exception(caught.value)
        assert (ended.kind, ended.error_code, ended.error_class) == ("failed", "exception", "ValueError")
        assert not ended.permanent
        assert ended.traceback.endswith("ValueError: the bottom\n")
        assert len(ended.traceback.encode()) <= 8192

    def test_bounds_texts_and_makes_them_storable(self):
        ended = outcome_of_exception(
            Permanent("\x00\ud800é" * 5000, code="c" * 500, http_status=400, response_excerpt="ß\x00" * 5000)
        )
        assert len(ended.error_message.encode()) <= 2000
        assert len(ended.response_excerpt.encode()) <= 2048
        assert len(ended.error_code) == 64
        for text in (ended.error_message, ended.response_excerpt):
            assert "\x00" not in text
            text.encode()

    def test_survives_an_exception_that_cannot_be_printed(self):
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        ended = outcome_of_exception(Mute())
        assert "whose own text failed with RuntimeError" in ended.error_message

    def test_buries_what_is_permanent(self):
        ended = outcome_of_exception(Permanent("no such account", code="account"))
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", True, "account")
        assert (ended.traceback, ended.pause_job) == ("", False)

    def test_shows_what_a_foreseen_failure_was_raised_from(self):
        with pytest.raises(ValueError, match="the bottom") as caught:
            _deep(0)
        foreseen = Permanent("translated")
        foreseen.__cause__ = caught.value
        assert "ValueError: the bottom" in outcome_of_exception(foreseen).traceback

    @pytest.mark.parametrize(
        ("asked", "kept"),
        [(90, 90), (1.5, 1.5), (timedelta(minutes=2), 120), (-5, 0), (timedelta(seconds=-1), 0)],
    )
    def test_carries_the_delay_a_handler_asks_for(self, asked, kept):
        ended = outcome_of_exception(RetryAfter(asked, code="busy"))
        assert ended.retry_after == timedelta(seconds=kept)
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", False, "busy")

    def test_retries_a_plain_handler_error(self):
        ended = outcome_of_exception(HandlerError("later", http_status=503))
        assert (ended.kind, ended.permanent, ended.retry_after, ended.http_status) == (
            "failed",
            False,
            None,
            503,
        )

    def test_ends_as_cancelled_when_the_handler_says_so(self):
        assert outcome_of_exception(Cancelled()).kind == "cancelled"


class TestStorableText:
    def test_never_splits_a_character(self):
        assert storable_text("aé", max_bytes=2) == "a"
        assert storable_text("éa", max_bytes=2, keep="tail") == "a"


class TestContext:
    def test_hides_the_signing_secret(self, make_context):
        assert "whsec_x" not in repr(make_context(signing_secret="whsec_x"))

    def test_passes_progress_and_checkpoints_to_the_engine(self, make_context):
        heard: list = []
        ctx = make_context(on_progress=lambda *said: heard.append(said), on_checkpoint=heard.append)
        ctx.progress(1)
        ctx.progress(0.5, "halfway")
        ctx.checkpoint({"page": 3})
        assert heard == [(1.0, ""), (0.5, "halfway"), {"page": 3}]

    @pytest.mark.parametrize(
        ("fraction", "stage"),
        [
            (-0.1, ""),
            (1.1, ""),
            (math.nan, ""),
            (True, ""),
            ("1", ""),
            (0, "x" * 201),
            (0, "\x00"),
            (0, None),
        ],
    )
    def test_refuses_progress_that_means_nothing(self, make_context, fraction, stage):
        ctx = make_context(on_progress=lambda *_: pytest.fail("reported"))
        with pytest.raises(InvalidInput):
            ctx.progress(fraction, stage)

    @pytest.mark.parametrize("state", [None, [], "x", {"a": object()}, {"a": "x" * 65_536}, {"a": math.nan}])
    def test_refuses_a_checkpoint_that_cannot_be_kept(self, make_context, state):
        ctx = make_context(on_checkpoint=lambda _: pytest.fail("reported"))
        with pytest.raises(InvalidInput):
            ctx.checkpoint(state)

    def test_learns_of_a_cancel(self, make_context):
        ctx = make_context()
        ctx.raise_if_cancelled()
        assert not ctx.cancelled()
        ctx.cancel_event.set()
        assert ctx.cancelled()
        with pytest.raises(Cancelled):
            ctx.raise_if_cancelled()


def _deep(levels: int) -> None:
    if levels:
        _deep(levels - 1)
    raise ValueError("the bottom")
