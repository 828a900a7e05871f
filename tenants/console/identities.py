"""The subject that an operator has at the identity provider, on the operator's page: a linked subject signs in as them.

Operators who may edit the operator and have the right to it set it, and never for themselves.
"""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.admin import StackedInline

from tenants.console.bounds import may_set
from tenants.models import OperatorIdentity


class IdentityForm(forms.ModelForm):
    """A link to the issuer that is set. Saving a link to an issuer that was set before makes it one to this issuer."""

    class Meta:
        model = OperatorIdentity
        fields = ("subject",)

    def clean_subject(self) -> str:
        subject: str = self.cleaned_data["subject"]
        assert settings.OIDC is not None  # UserAdmin.get_inlines
        self.instance.issuer = settings.OIDC.issuer
        taken = OperatorIdentity.objects.filter(issuer=self.instance.issuer, subject=subject)
        if taken.exclude(pk=self.instance.pk).exists():
            raise ValidationError("Another operator is linked to this subject.")
        return subject


class IdentityInline(StackedInline):
    model = OperatorIdentity
    form = IdentityForm
    extra = 0
    max_num = 1
    verbose_name = "single sign-on"
    verbose_name_plural = "single sign-on"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_delete_permission(request, obj)
