"""Edits of a row that another user has changed since the form was opened: they are refused, shown field by field, and
gone on with by another click.

The form carries the values that it showed. A field that its user left as it was shown is no change of theirs, even if
the row says something else by now, so an old page reverts nothing. Typed values stay in their inputs.
"""

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import Field
from django.http import QueryDict

from tenants.actions import ChangedMeanwhile

NOTHING = "empty"
_UNREADABLE = "The values that the page showed cannot be read: open the page again."


class SeenField(forms.CharField):
    """The values that a form showed, by name, as JSON in a hidden input. None: the form had none."""

    widget = forms.HiddenInput

    def __init__(self) -> None:
        super().__init__(required=False)

    def prepare_value(self, value: Any) -> Any:
        return json.dumps(value) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        if not value:
            return None
        try:
            seen = json.loads(value)
        except (ValueError, RecursionError):
            seen = None
        if not isinstance(seen, dict):
            raise ValidationError(_UNREADABLE, code="invalid")
        return seen


class SeenForm(forms.ModelForm):
    """A form of a row whose edits are written while it validates. Its columns' values are JSON's."""

    seen = SeenField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding:
            del self.fields["seen"]
        else:
            self._present = {name: getattr(self.instance, name) for name in self._columns}
            self.initial["seen"] = self._present

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.fields if name not in ("seen", self._meta.model._meta.pk.name)]  # type: ignore[union-attr]

    def write(self, seen: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
        """Change the row and return it. May raise ``ChangedMeanwhile`` and ``ValidationError``."""
        raise NotImplementedError

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors or self.instance._state.adding:
            return
        given = self.cleaned_data["seen"]
        seen = self._present if given is None else {name: given.get(name) for name in self._columns}
        changes = {name: self.cleaned_data[name] for name in seen if self.cleaned_data[name] != seen[name]}
        try:
            self.instance = self.write(seen, changes)
        except ChangedMeanwhile as error:
            self._show_both(seen, changes, error.now)
        except ValidationError as error:
            self.add_error(None, error)

    def _show_both(self, seen: Mapping[str, Any], changes: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Tell beside each input that changed meanwhile what it was, is, and will be. The next save goes on top."""
        shown: Any = self.data
        data = shown.copy()
        data[self.add_prefix("seen")] = json.dumps(dict(now))
        for name in (name for name in now if now[name] != seen[name]):
            field, became = self.fields[name], f"Was {_told(seen[name])}, and is now {_told(now[name])}."
            if name not in changes:
                _put(data, self.add_prefix(name), field, now[name])
                self.add_error(name, f"{became} You did not change it, so it stays that.")
            elif changes[name] != now[name]:
                self.add_error(
                    name, f"{became} If you save again, it becomes {_told(changes[name])}, as you typed."
                )
        self.data = data
        self.add_error(
            None,
            "Another user changed this after you opened the page, and nothing was saved. Each field that "
            "they changed is marked below. Save again to apply your changes on top of theirs.",
        )


def _told(value: Any) -> str:
    if value in (None, "", []):
        return NOTHING
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _put(data: QueryDict, name: str, field: Field, value: Any) -> None:
    """Let ``data`` say ``value`` as a browser would send it."""
    if isinstance(field, forms.BooleanField):
        data.pop(name, None)
        if value:
            data[name] = "on"
        return
    shown = field.widget.format_value(field.prepare_value(value)) if value is not None else ""
    data[name] = shown[0] if isinstance(shown, list) else "" if shown is None else str(shown)
