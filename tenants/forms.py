"""Inputs of the console that read as strictly as the API: Python reads more texts as numbers than people mean."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect

from tenants.models import EARLIEST, LATEST, OUT_OF_BOUNDS

_WHOLE = re.compile("[+-]?[0-9]{1,20}", re.ASCII)
_ID = re.compile("[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


class WholeNumberField(forms.IntegerField):
    """It takes ASCII digits alone: ``int`` also takes ``1_000``, and the digits of every script."""

    def to_python(self, value: Any) -> int | None:
        if isinstance(value, str) and value.strip() and not _WHOLE.fullmatch(value.strip()):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class NumberField(forms.FloatField):
    """The same with a fraction, finite."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value.strip() and not _NUMBER.fullmatch(value.strip()):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class MomentField(forms.SplitDateTimeField):
    """A date and a time that can be stored, in ASCII digits: ``strptime`` reads those of every script."""

    def clean(self, value: Any) -> datetime | None:
        if not all(str(part or "").isascii() for part in value or ()):
            raise forms.ValidationError(self.error_messages["invalid_date"], code="invalid_date")
        moment: datetime | None = super().clean(value)
        if moment is not None and not EARLIEST <= moment <= LATEST:
            raise forms.ValidationError(OUT_OF_BOUNDS, code="invalid")
        return moment


class RowSelect(AutocompleteSelect):
    """Looks up ids alone: Django's looks up every value that was sent, to show it again beside the error."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        return super().optgroups(name, [one for one in value if _ID.fullmatch(str(one))], attr)
