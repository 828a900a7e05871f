"""A handler's output is kept in bounded room, and can be stored with any content."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from jobs.telemetry.output import MAX_BYTES, Output, Said, bounded, cleaned, stored


def kept(*texts: str) -> str:
    output = Output()
    for text in texts:
        output.keep(text)
    return stored(output.close()) or ""


class TestOutput:
    def test_is_nothing_until_something_is_said(self) -> None:
        assert Output().close() is None
        assert stored(None) is None
        assert bounded("") is None

    def test_is_all_of_it_up_to_its_bound(self) -> None:
        lines = [f"line {number}\n" for number in range(6_000)]
        assert sum(map(len, lines)) > 50_000
        assert kept(*lines) == "".join(lines)

    def test_is_beginning_and_end_of_too_much_and_tells_what_is_missing(self) -> None:
        lines = [f"line {number}\n" for number in range(100_000)]
        said = kept(*lines)
        assert MAX_BYTES - 100 < len(said.encode()) <= MAX_BYTES
        assert said.startswith("line 0\nline 1\n")
        assert said.endswith("line 99998\nline 99999\n")
        head, _, rest = said.partition("\n… ")
        number, _, tail = rest.partition(" bytes left out …\n")
        left_out = int(number.replace(",", ""))
        assert len(head) + left_out + len(tail) == sum(map(len, lines))
        assert kept("".join(lines)) == said

    def test_takes_no_more_room_however_much_is_said(self) -> None:
        output = Output()
        for _ in range(200):
            output.keep("x" * 100_000)
            assert len(output._head or b"") + len(output._tail) <= 2 * MAX_BYTES

    def test_ends_when_it_is_closed(self) -> None:
        output = Output()
        output.line("before")
        assert output.close()
        output.line("behind")
        assert output.close() is None
        assert output._head is None

    def test_takes_lines_of_several_threads_whole(self) -> None:
        output = Output()
        threads = [
            threading.Thread(target=lambda n=n: [output.line(f"<{n}-{i}>") for i in range(200)])
            for n in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = (stored(output.close()) or "").splitlines()
        assert sorted(line.split("Z ")[1] for line in lines) == sorted(
            f"<{n}-{i}>" for n in range(5) for i in range(200)
        )

    def test_is_bounded_again_where_secrets_made_it_longer(self) -> None:
        said = stored(Said("a" * MAX_BYTES + "é" * MAX_BYTES)) or ""
        assert len(said.encode()) <= MAX_BYTES
        assert said.endswith("é")
        said = stored(Said("a" * 2 * MAX_BYTES, 10, "b" * MAX_BYTES)) or ""
        assert len(said.encode()) <= MAX_BYTES
        assert f"{10 + 3 * MAX_BYTES - said.count('a') - said.count('b') + 1:,} bytes left out" in said

    @given(st.lists(st.text(), max_size=20), st.integers(0, 4_000))
    def test_can_be_stored_whatever_it_is(self, texts: list[str], times: int) -> None:
        said = kept(*texts, *(texts[:1] * times))
        assert len(said.encode()) <= MAX_BYTES
        assert not {"\0", "\x1b", "\r"} & set(said)


class TestCleaned:
    def test_is_without_what_a_terminal_obeys(self) -> None:
        assert (
            cleaned("\x1b[1;31mred\x1b[0m \x1b]8;;http://a\x07link\x1b]8;;\x07 a\0b\x07\x9b2J")
            == "red link ab2J"
        )

    def test_keeps_tabs_and_lines(self) -> None:
        assert cleaned("a\tb\r\nc\rd\n") == "a\tb\nc\nd\n"

    def test_leaves_no_half_of_a_character(self) -> None:
        assert cleaned("a\ud800b") == "ab"
        assert kept("a\ud800b") == "a?b"
