"""Shapes that refuse keep nothing of the document that they refused."""

import gc
import weakref
from typing import Any

import pytest

from jobs.core.errors import InvalidInput
from jobs.shapes.base import Shape


class Part(Shape):
    number: int


class Whole(Shape):
    part: Part


class Document(dict[str, Any]):
    """A JSON object that can be watched."""


@pytest.mark.parametrize(
    "document",
    [
        {"part": {"number": "one"}},
        {"part": {}, "name": 1},
        {f"name{number}": 1 for number in range(100)},
        {"part": {f"name{number}": 1 for number in range(100)}},
    ],
    ids=["a field of a part", "fields of both", "very many fields", "very many fields of a part"],
)
def test_a_refused_document_can_be_freed(document: dict[str, Any]) -> None:
    given = Document(document)
    seen = weakref.ref(given)
    with pytest.raises(InvalidInput) as refused:
        Whole.read(given)
    assert refused.value.errors
    del given, refused
    gc.collect()
    assert seen() is None
