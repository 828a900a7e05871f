"""The inputs of a job's form: each reads as strictly as the API, and an empty one shows its default."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import loads_strict
from tenants.forms import NumberField, WholeNumberField

RFC_3339 = "RFC 3339 in UTC, such as 2030-01-31T02:00:00Z"
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(s|min|m|h|d|)", re.ASCII)
#: No valid list of delays is longer; a longer text is refused without a look at its parts.
_MAX_DELAYS_LENGTH = 4000


class JsonField(forms.CharField):
    """A JSON object as text, read as strictly as the API reads it; empty is ``empty``."""

    def __init__(self, *, rows: int, empty: str = "{}", **options: Any) -> None:
        self._empty = empty
        style = {"rows": rows, "style": "font-family: monospace", "spellcheck": "false"}
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs=style), **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False) if value else self._empty.removeprefix("null")

    def to_python(self, value: Any) -> Any:
        text = (super().to_python(value) or "").strip() or self._empty
        try:
            return loads_strict(text.encode())
        except InvalidInput as error:
            raise forms.ValidationError(error.errors[""]) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool((self.to_python(data) or {}) != (initial or {}))
        except forms.ValidationError:
            return True


class LabelsField(JsonField):
    """One ``key=value`` a line, or a JSON object."""

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return "\n".join(f"{key}={word}" for key, word in sorted(value.items()))

    def to_python(self, value: Any) -> Any:
        text = (value or "").strip() if isinstance(value, str) else ""
        if text[:1] in ("{", "[", '"', ""):
            return super().to_python(value)
        if "\0" in text:
            raise forms.ValidationError("Null characters are not allowed.")
        found: dict[str, str] = {}
        for line in filter(None, map(str.strip, text.splitlines())):
            key, equals, word = (part.strip() for part in line.partition("="))
            if not equals:
                raise forms.ValidationError(f"{line[:80]!r} is not a label; write key=value, one per line.")
            if key in found:
                raise forms.ValidationError(f"The label {key[:80]!r} is given twice.")
            found[key] = word
        return found


class DelaysField(forms.CharField):
    """``30 s, 2 min, 1 h`` as a list of seconds; plain numbers are seconds."""

    def __init__(self, **options: Any) -> None:
        placeholder = options.pop("placeholder", "")
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder})
        super().__init__(required=False, widget=widget, **options)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(seconds_text, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        parts = text.split(",") if len(text) <= _MAX_DELAYS_LENGTH else [text]
        return [self._seconds(part.strip()) for part in parts]

    @staticmethod
    def _seconds(part: str) -> float:
        read = _DELAY.fullmatch(part)
        if read is None:
            raise forms.ValidationError(
                f"{part[:40]!r} is not a delay; write 30 s, 2 min or 1 h, for example."
            )
        seconds = float(read[1]) * _UNITS[read[2]]
        return int(seconds) if seconds.is_integer() else seconds

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != initial)
        except forms.ValidationError:
            return True


def seconds_text(seconds: float) -> str:
    """``30 s``, ``2 min``, ``1 h``, ``90 s``: in the largest unit that gives a whole number."""
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s"


def text(**options: Any) -> forms.CharField:
    placeholder = options.pop("placeholder", "")
    options.setdefault("widget", UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder}))
    return forms.CharField(required=False, **options)


def number(
    kind: type[forms.IntegerField] = NumberField, *, default: object = None, **options: Any
) -> forms.IntegerField:
    """``default``: the meaning of an empty input, shown in its place."""
    attrs = {"type": "number", "step": "1" if kind is WholeNumberField else "any"}
    if default is not None:
        attrs["placeholder"] = f"{default:g}" if isinstance(default, float) else str(default)
    return kind(required=False, widget=UnfoldAdminTextInputWidget(attrs=attrs), **options)


def choice(
    values: Iterable[Any], *, required: bool = False, default: object = None, **options: Any
) -> forms.ChoiceField:
    """``default``: the meaning of the empty choice, named in it."""
    blank = "default" if default is None else f"default: {str(default).replace('_', ' ')}"
    listed = [] if required else [("", blank)]
    choices = [*listed, *((str(value), str(value).replace("_", " ")) for value in values)]
    return forms.ChoiceField(choices=choices, required=required, widget=UnfoldAdminSelectWidget(), **options)


class SuggestingInput(UnfoldAdminTextInputWidget):
    """A text input that offers ``suggestions``, and takes any other text as well."""

    suggestions: Sequence[str] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        listed = f"{name}-suggestions"
        own = super().render(name, value, {**(attrs or {}), "list": listed}, renderer)
        options = format_html_join("", '<option value="{}">', ((text,) for text in self.suggestions))
        return format_html('{}<datalist id="{}">{}</datalist>', own, listed, options)


class Pane(forms.Widget):
    """A part of the form that shows and takes nothing: ``template`` is rendered with ``told``."""

    def __init__(self, template: str) -> None:
        super().__init__()
        self._template = template
        self.told: dict[str, Any] = {}

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        return render_to_string(self._template, self.told)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> None:
        return None


def pane(template: str, **options: Any) -> forms.Field:
    return forms.Field(required=False, widget=Pane(template), **options)
