"""The inputs of a job's notices, and the document of the API that they make."""

from collections.abc import Mapping
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from jobs.admin.editing import inputs
from jobs.shapes.notify import ON

_FIELDS = ("on", "url", "email")


class NoticeInputs(forms.Form):
    """``notice_<field>`` for each field of ``notify``."""

    notice_on = forms.MultipleChoiceField(
        choices=[(word, word.replace("_", " ")) for word in ON],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        label="Tell of",
        help_text="By default the tenant's notices.",
    )
    notice_url = inputs.text(label="By a signed webhook to", placeholder="https://ops.example/hook")
    notice_email = inputs.text(label="By e-mail to", placeholder="ops@example.com")
    notify = inputs.JsonField(
        rows=3,
        empty="null",
        label="Notices as JSON",
        help_text='Replaces the inputs above: {"on": ["dead"], "url": "https://ops.example/hook"}.',
    )


def notice_document(given: Mapping[str, Any]) -> Any:
    """The notices that the inputs mean; None where they say nothing."""
    written = given.get("notify")
    if written not in (None, {}):
        return written
    fields = {name: given[f"notice_{name}"] for name in _FIELDS if given.get(f"notice_{name}")}
    return fields or None
