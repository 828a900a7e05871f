"""The versions of a job as differences, and the way back to one: an edit with its definition.

Values that the audit trail does not keep (payloads, notices, long values) are told as changed. They stay as they are
now when a version is restored.
"""

import json
from datetime import datetime
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget

from jobs.admin.job.dialogs import OfJobForm
from jobs.admin.shared.cells import moment_cell, visible
from jobs.core.states import ENDED_JOB
from jobs.explain.changes import MAX_VERSIONS, Version, versions_of
from jobs.models import Job


class RestoreForm(OfJobForm):
    """The version to restore, and the present one that was shown: an edit in between is not overwritten."""

    number = forms.TypedChoiceField(label="Version", coerce=int, widget=UnfoldAdminSelectWidget)
    present = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.versions = {version.number: version for version in versions_of(self.job)[1:]}
        self.fields["number"].choices = [(number, f"Version {number}") for number in self.versions]  # type: ignore[attr-defined]
        self.fields["number"].initial = self.request.GET.get("number")
        self.fields["present"].initial = self.job.version

    @property
    def definition(self) -> dict[str, Any]:
        return self.versions[self.cleaned_data["number"]].definition


def versions(job: Job, *, now: datetime) -> dict[str, Any]:
    """The context of ``templates/admin/jobs/job/versions.html``."""
    found = versions_of(job)
    ended = job.deleted_at is not None or job.status in ENDED_JOB
    return {
        "job": job,
        "editable": not ended,
        "cut": len(found) == MAX_VERSIONS,
        "rows": [_shown(version, now=now, is_present=nth == 0) for nth, version in enumerate(found)],
    }


def _shown(version: Version, *, now: datetime, is_present: bool) -> dict[str, Any]:
    return {
        "number": version.number,
        "made": moment_cell(version.made_at, now=now) if version.made_at else "",
        "by": version.by,
        "is_present": is_present,
        "unkept": sorted(version.unkept),
        "changes": [
            {
                "field": field,
                "kept": told is not None,
                "before": _text(told[0]) if told else "",
                "after": _text(told[1]) if told else "",
            }
            for field, told in version.changed.items()
        ],
    }


def _text(value: Any) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))
