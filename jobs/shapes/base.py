"""The common part of all shapes. Shapes that are sent refuse in Carillon's words, with every fault by the path of its
field; shapes that are answered take their fields from an object.

A refusal is raised once pydantic's ``ValidationError`` is gone. Python's collector does not see into such an error. If
a refusal had the error as its ``__context__``, while the error holds the refusal, neither would ever be freed, nor
would the document they are about.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    RootModel,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo

from jobs.core.errors import MAX_FIELDS, InvalidInput, refusal, unknown

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Described(BaseModel):
    """Reads JSON. Each object translates its own faults; the one around it puts them below its path."""

    #: The message for a field that is missing or unknown, if it says more than that.
    hints: ClassVar[Mapping[str, str]] = {}
    #: Whether null counts as left out, as in a JSON merge patch (RFC 7396).
    drops_null: ClassVar[bool] = False
    tagged: ClassVar[bool] = False

    @classmethod
    def read(cls, document: object, **context: Any) -> Self:
        """The object that parsed JSON describes. Raises ``InvalidInput`` naming every wrong field at once.

        ``context`` holds further facts that validators may use.
        """
        try:
            return cls.model_validate(document, context=context)
        except ValidationError as error:
            # The one finding is the refusal that the validator below raised.
            [finding] = error.errors(include_url=False, include_input=False)
            errors = finding.pop("ctx")["error"].errors
        raise InvalidInput(errors)

    @classmethod
    def kept(cls, document: object) -> Self:
        """As ``read``, for a document that was read once and is kept: fields may have come since. Validators have no
        context then, so checks that depend on how the installation is now do not refuse it.
        """
        return cls.model_validate(document)

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, document: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        known: Collection[str] = cls.model_fields
        if isinstance(document, dict):
            if not cls.tagged and len(document) > len(known) + MAX_FIELDS:
                # Refused before pydantic makes a finding of each of a hundred thousand names.
                raise InvalidInput(unknown(document, known=known, hints=cls.hints))
            if cls.drops_null:
                document = {name: value for name, value in document.items() if value is not None}
        try:
            return handler(document)
        except ValidationError as error:
            findings: Any = error.errors(include_url=False, include_input=False)
        refused = refusal(findings, known=known, hints=cls.hints, tagged=cls.tagged)
        del findings
        raise refused


class Shape(Described):
    """A JSON object: no unknown fields, nothing to change afterwards. A docstring below a field describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class OneOf(Described, RootModel[T], Generic[T]):
    """One of several shapes, as ``root``."""

    tagged = True


class Shown(BaseModel):
    """A JSON object that is answered: its fields are an object's, by their names or aliases."""

    model_config = ConfigDict(from_attributes=True, validate_by_name=True, use_attribute_docstrings=True)

    @classmethod
    def of(cls, row: Any, **told: Any) -> dict[str, Any]:
        """``row`` in this shape, JSON types only; ``told`` are fields that it lacks, or has with other values."""
        if told:
            row = (row._asdict() if hasattr(row, "_asdict") else vars(row)) | told
        return cls.model_validate(row).model_dump(mode="json")


#: The default of a field that an answer may leave out.
LEFT_OUT: Any = None


class Fault(Shown):
    field: str
    """Path of the field, such as schedule.cron."""
    message: str


class Problem(Shown):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str = LEFT_OUT
    """ID of the call, as in `X-Request-ID` and in the server's log. One of many items has none of its own; an answer
    that is repeated for its `Idempotency-Key` has the ID of the first call."""
    errors: list[Fault] = LEFT_OUT
    quota: str = LEFT_OUT
    """Name of the quota that is reached."""
    limit: int = LEFT_OUT
    """Limit of that quota."""
    used: int = LEFT_OUT
    """How much of that limit is used."""


def changes_of(
    name: str, *shapes: type[Shape], doc: str, without: Collection[str] = (), **tag: Any
) -> type[Shape]:
    """The shape that an edit may send for any of ``shapes``: all of their fields ``without`` some, each optional;
    ``tag`` tells the shapes apart."""
    fields: dict[str, Any] = {
        field: (info.annotation, FieldInfo.merge_field_infos(info, default=None, default_factory=None))
        for shape in shapes
        for field, info in shape.model_fields.items()
        if field not in without
    }
    return composed(name, Shape, fields | {tell: (kind, None) for tell, kind in tag.items()}, doc=doc)


def composed(name: str, base: type[M], fields: Mapping[str, Any], *, doc: str | None = None) -> type[M]:
    """A subclass of ``base`` with ``fields``, as pydantic's ``create_model`` makes it, in a twentieth of the time.

    None of these fields has a docstring. Pydantic would still look for them, through the source of every frame up to
    the program's first: half of the time in which a process starts. The docstrings of derived classes are read.
    """
    options: Any = {"__base__": base, "__doc__": doc, "__cls_kwargs__": {"use_attribute_docstrings": False}}
    made: Any = create_model(name, **options, **fields)
    made.model_config["use_attribute_docstrings"] = True
    return made  # type: ignore[return-value]  # mypy takes the name for the class
