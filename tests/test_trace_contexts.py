"""Trace contexts: a context that W3C allows comes out as it went in, and any other counts as absent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.telemetry.traces.w3c import MAX_KEPT_LENGTH, MAX_TRACESTATE_LENGTH, TraceContext, read, recall

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SOUND = f"00-{TRACE}-{SPAN}-01"
HEX = "0123456789abcdef"
contexts = st.builds(
    TraceContext,
    st.text(HEX, min_size=32, max_size=32).filter(lambda text: set(text) != {"0"}),
    st.text(HEX, min_size=16, max_size=16).filter(lambda text: set(text) != {"0"}),
    st.integers(0, 3),
    st.sampled_from(("", "a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "tenant@vendor=x y")),
)


class TestTraceparent:
    def test_is_read_and_written_alike(self) -> None:
        read_back = read(SOUND)
        assert read_back == TraceContext(TRACE, SPAN, 1)
        assert read_back.is_sampled
        assert read_back.traceparent == SOUND
        assert read_back.headers() == {"traceparent": SOUND}

    @pytest.mark.parametrize(
        "given",
        [
            "",
            "garbage",
            SOUND.upper(),
            SOUND + "0",
            SOUND + "-00",
            SOUND.replace("00-", "ff-", 1),
            SOUND.replace("00-", "0-", 1),
            f"00-{'0' * 32}-{SPAN}-01",
            f"00-{TRACE}-{'0' * 16}-01",
            f"00-{TRACE[:-1]}-{SPAN}-01",
            f"00-{TRACE}-{SPAN}-0g",
            f"00-{TRACE}-{SPAN}",
            f"{SOUND},{SOUND}",
            f"{SOUND}\nX-Evil: 1",
            f"01-{TRACE}-{SPAN}-01x",
            "\u0660" * 55,
        ],
    )
    def test_that_is_malformed_counts_as_absent(self, given: str) -> None:
        assert read(given) is None

    def test_of_a_later_version_is_read_as_far_as_it_is_known(self) -> None:
        for later in (f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-09-what-the-future-brings"):
            found = read(later)
            assert found is not None
            assert found.traceparent == SOUND

    def test_passes_no_flag_on_that_nobody_knows(self) -> None:
        found = read(f"00-{TRACE}-{SPAN}-fe")
        assert found is not None
        assert found.traceparent == f"00-{TRACE}-{SPAN}-02"

    @given(contexts)
    def test_is_kept_whole(self, context: TraceContext) -> None:
        assert recall(context.kept()) == context
        assert len(context.kept()) <= MAX_KEPT_LENGTH


class TestTracestate:
    def test_is_passed_on_in_its_order(self) -> None:
        found = read(SOUND, "rojo=00f067aa0ba902b7 , congo=t61rcWkgMzE,,")
        assert found is not None
        assert found.headers()["tracestate"] == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"

    @pytest.mark.parametrize(
        "given",
        [
            "no-value",
            "Upper=1",
            "a=1,a=2",
            "a=ü",
            "a=1\r\nX-Evil: 1",
            "a=" + "x" * 257,
            ",".join(f"k{n}=1" for n in range(33)),
            ",".join(f"k{n}={'x' * 200}" for n in range(3)),
        ],
    )
    def test_that_is_malformed_or_too_long_is_left_out_alone(self, given: str) -> None:
        assert read(SOUND, given) == TraceContext(TRACE, SPAN, 1)

    def test_may_be_as_long_as_the_specification_asks_for(self) -> None:
        longest = f"a={'x' * 250},b={'y' * 250},c={'z' * 4}"
        assert len(longest) == MAX_TRACESTATE_LENGTH
        assert read(SOUND, longest) == TraceContext(TRACE, SPAN, 1, longest)
        assert read(SOUND, longest + "z") == TraceContext(TRACE, SPAN, 1)
