"""JSON and text from outside: every refusal names the exact place, and no input exhausts the machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json, check_text, loads_strict, nesting_exceeds, read_json

STORABLE = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))

#: Objects as text: few keys, so that some repeat, with and without white space, and strings that look like keys.
WRITTEN = st.recursive(
    st.sampled_from(["1", '""', '"\\":"', '"a\\" :"', "[]", "{}", '"é"']),
    lambda inner: (
        st.lists(
            st.tuples(
                st.sampled_from(['"a"', '"b\\""', '"\\u0061"', '"é"']),
                st.sampled_from([":", " :", "\n: "]),
                inner,
            ),
            max_size=3,
        ).map(lambda pairs: "{" + ",".join(map("".join, pairs)) + "}")
        | st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
    ),
    max_leaves=8,
)


def nested(depth, innermost=None):
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


def looped():
    value = {}
    value["self"] = value
    return value


def bomb():
    """Thirty lists, each holding the one below twice: a billion values when written out."""
    value = ["x"]
    for _ in range(30):
        value = [value, value]
    return value


#: The value, the path its refusal names, and a part of the reason.
REFUSED = [
    ("a\x00b", "payload", "NUL"),
    ({"body": {"items": [1, 2, "\x00"]}}, "payload.body.items[2]", "NUL"),
    ({"a\x00": 1}, 'payload["a\\u0000"]', "In the key: A NUL"),
    (["\ud800"], "payload[0]", "surrogate"),
    ({"\udfff": 1}, 'payload["\\udfff"]', "surrogate"),
    ({"two words": float("nan")}, 'payload["two words"]', "NaN"),
    ([float("inf")], "payload[0]", "infinities"),
    ({"n": -float("inf")}, "payload.n", "infinities"),
    ({"n": 2**53 + 1}, "payload.n", "2^53"),
    ({"n": -(2**53) - 1}, "payload.n", "2^53"),
    ({"n": 10**5000}, "payload.n", "2^53"),
    ({"a": {1: 2}}, "payload.a", "The key 1"),
    ({None: 2}, "payload", "The key None"),
    ({"t": (1, 2)}, "payload.t", "tuple"),
    ({"b": b"x"}, "payload.b", "bytes"),
    (nested(33), "payload" + "[0]" * 32, "32 levels"),
    (nested(100_000), "payload" + "[0]" * 32, "32 levels"),
    (looped(), "payload" + ".self" * 32, "32 levels"),
    (bomb(), "payload", "bytes"),
    ("x" * 999, "payload", "1000 bytes"),
    ("€" * 333, "payload", "1000 bytes"),
    ({"first": "\x00", "second": "\x00"}, "payload.first", "NUL"),
    ({"k" * 500: "\x00"}, f'payload["{"k" * 40}"]', "NUL"),
]


class TestCheckJson:
    @pytest.mark.parametrize(("value", "path", "reason"), REFUSED, ids=range(len(REFUSED)))
    def test_refuses_naming_the_exact_path(self, value, path, reason):
        with pytest.raises(InvalidInput) as refusal:
            check_json(value, field="payload", max_bytes=1000)
        ((field, (message,)),) = refusal.value.errors.items()
        assert field == path
        assert reason in message
        assert len(message) < 200
        field.encode()

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            "",
            {},
            [],
            {"n": [2**53, -(2**53), 0, 1.5]},
            nested(32),
            "x" * 998,
            {"": {"é": "\U0001f600"}},
        ],
    )
    def test_accepts_what_postgres_can_hold(self, value):
        check_json(value, field="payload", max_bytes=1000)

    def test_names_a_place_at_the_top_without_a_field(self):
        with pytest.raises(InvalidInput) as refusal:
            check_json({"url": "\x00"}, field="", max_bytes=1000)
        assert list(refusal.value.errors) == ["url"]

    def test_returns_the_bytes_it_takes(self):
        assert check_json({"é": [1, "x"]}, field="", max_bytes=100) == len('{"é":[1,"x"]}'.encode())

    def test_measures_numbers_of_other_libraries(self) -> None:
        class Numpys(float):
            """As numpy.float64."""

        assert check_json({"a": Numpys(1.5)}, field="", max_bytes=100) == len('{"a":1.5}')

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ([[1, {"a": [2]}], {"b": [3, ["\x00"]]}], "p[1].b[1][0]"),
            ({"a": [], "b": {}, "c": [[], [[]], {"d": {"e": 2**60}}]}, "p.c[2].d.e"),
            ([{}, {"a": 1}, {"b": {"c\x00": 1}}], 'p[2].b["c\\u0000"]'),
            ({"a": {"b": ["\x00"]}, "c": "\x00"}, "p.c"),
        ],
    )
    def test_finds_a_fault_among_others_and_the_least_deep_first(self, value, path):
        with pytest.raises(InvalidInput) as refusal:
            check_json(value, field="p", max_bytes=1000)
        assert list(refusal.value.errors) == [path]

    @pytest.mark.parametrize("shared", [{"k" * 10_000: 1}, {"k": "v" * 10_000}, ["v" * 10_000]])
    def test_does_not_write_out_what_is_held_many_times(self, shared):
        with pytest.raises(InvalidInput, match="bytes"):
            check_json([shared] * 1_000_000, field="payload", max_bytes=3_000_000)


class TestCheckText:
    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("a\x00", "NUL"),
            ("\ud800", "surrogate"),
            ("x" * 201, "at most 200"),
            ("abc\u202etxt", "direction"),
            (5, "text"),
            (None, "text"),
        ],
    )
    def test_refuses_under_its_field(self, value, reason):
        with pytest.raises(InvalidInput) as refusal:
            check_text(value, field="name", max_length=200)
        assert reason in refusal.value.errors["name"][0]

    @pytest.mark.parametrize("value", ["", "x" * 200, "नमस्ते", "שלום", "a\nb"])
    def test_accepts_any_script(self, value):
        check_text(value, field="name", max_length=200)


class TestNestingExceeds:
    @pytest.mark.parametrize(
        ("raw", "depth"),
        [
            (b"1", 0),
            (b"[]", 1),
            (b'{"a": [1, {"b": []}]}', 4),
            (b'["[[[[", "{{{{"]', 1),
            (rb'["\"[[[[", [1]]', 2),
            (rb'["\\", [1]]', 2),
            (b"[[], [], [[]]]", 3),
            (b"[" * 100_000, 100_000),
            (b'["unfinished [[[[', 1),
        ],
    )
    def test_counts_brackets_outside_strings(self, raw, depth):
        assert not nesting_exceeds(raw, depth)
        assert depth == 0 or nesting_exceeds(raw, depth - 1)

    def test_passes_over_a_string_of_megabytes(self):
        assert not nesting_exceeds(b'"' + b'\\"[' * 1_000_000 + b'"', 0)


class TestLoadsStrict:
    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (b"[NaN]", "NaN is not JSON"),
            (b"[-Infinity]", "-Infinity is not JSON"),
            (b"[1e999]", "too large"),
            (b'{"a": 1, "b": 2, "a": 3}', "The key a is given twice"),
            (b'{"x": [{"\\u0000": 1, "\\u0000": 3}]}', "given twice"),
            (b"[" * 100_000 + b"]" * 100_000, "32 levels"),
            (b"[" + b"9" * 5000 + b"]", "5000 digits"),
            (b"[-" + b"9" * 10_000_000 + b"]", "digits"),
            (b"\xff", "Not UTF-8 at byte 0"),
            ("[]".encode("utf-16"), "Not UTF-8"),
            (b"\xef\xbb\xbf{}", "Not JSON"),
            (b"", "Not JSON at line 1 column 1"),
            (b'{"a": 1,}', "Not JSON at line 1"),
            (b"[1] [2]", "Not JSON"),
            (b'["line\nbreak"]', "Not JSON"),
            (b"]" * 40 + b"[" * 40, "Not JSON"),
        ],
        ids=range(16),
    )
    def test_refuses_what_lenient_parsers_let_through(self, raw, reason):
        with pytest.raises(InvalidInput) as refusal:
            loads_strict(raw)
        ((field, (message,)),) = refusal.value.errors.items()
        assert field == ""
        assert reason in message
        assert len(message) < 200
        with pytest.raises(InvalidInput) as again:
            read_json(raw)
        # A number beyond all bounds is placed; what is wrong with the text has no place.
        assert again.value.errors.get("", [message]) == [message]

    @given(WRITTEN)
    def test_refuses_a_key_that_is_given_twice_however_it_is_written(self, text: str):
        raw = text.encode()
        repeats = []
        json.loads(raw, object_pairs_hook=lambda pairs: repeats.append(len(dict(pairs)) < len(pairs)))
        if any(repeats):
            with pytest.raises(InvalidInput, match="given twice"):
                read_json(raw)
        else:
            assert read_json(raw) == json.loads(raw)

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**53), 2**53)
            | st.floats(min_value=-(2**53), max_value=2**53)
            | STORABLE,
            lambda children: st.lists(children, max_size=3) | st.dictionaries(STORABLE, children, max_size=3),
            max_leaves=20,
        )
    )
    def test_reads_what_it_accepts_as_the_standard_library_does(self, value):
        check_json(value, field="payload", max_bytes=10**6)
        assert read_json(raw := json.dumps(value).encode()) == loads_strict(raw) == value
