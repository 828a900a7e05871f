"""The console's pages of tenants with their quotas, of API keys, and of operators.

Secrets are shown once, when they are made, and never again: a key by the message after its creation, a tenant's webhook
secret likewise. Keys are revoked, not deleted; tenants are suspended, not deleted: their history refers to them.
"""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import DateTimeField, ForeignKey, IntegerField, Model
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from unfold.dataclasses import ActionDialog
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from tenants.actions import (
    TENANT_SCOPES,
    create_api_key,
    create_tenant,
    revoke_api_key,
    rotate_api_key,
    update_tenant,
)
from tenants.console import ConsoleAdmin, back_to
from tenants.console.edits import SeenForm
from tenants.console.operators import GroupAdmin, UserAdmin
from tenants.console.sessions import OperatorSessionAdmin
from tenants.console.words import instant
from tenants.forms import MomentField, RowSelect, WholeNumberField
from tenants.models import ApiKey, Secret, Tenant
from tenants.quotas import NAMES, QUOTAS, between
from tenants.vault.signing import open_signing_secrets, rotate_signing_secret

__all__ = ("OperatorSessionAdmin",)  # registered by its module
#: Below each page: a link to the changes of the shown row, and their actors.
TRAIL_LINK = "admin/trail_link.html"

admin.site.unregister((User, Group))
admin.site.register(User, UserAdmin)
admin.site.register(Group, GroupAdmin)


class CreatingForm(forms.ModelForm):
    """A form whose new rows are made by an action while it validates, so that a refusal is a field's error."""

    def create(self) -> Model:
        """Make the row from ``cleaned_data``. May raise ``ValidationError``."""
        raise NotImplementedError

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors or not self.instance._state.adding:
            return
        try:
            self.instance = self.create()
        except ValidationError as error:
            self.add_error(None, error)


class TenantForm(CreatingForm, SeenForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for quota in QUOTAS:
            if field := self.fields.get(quota.name):
                # Django would name the bounds of the column's type, one at a time.
                field.validators[:] = between(quota.low, quota.high)
                field.widget.attrs |= {"min": quota.low, "max": quota.high}
                if not self.instance._state.adding:
                    field.help_text = f"{field.help_text} {quota.reached.told}"

    def create(self) -> Tenant:
        return create_tenant(**self.cleaned_data)

    def write(self, seen: Mapping[str, Any], changes: Mapping[str, Any]) -> Tenant:
        return update_tenant(tenant=self.instance, seen=seen, **changes) if changes else self.instance


class ApiKeyForm(CreatingForm):
    token = ""
    scopes = forms.MultipleChoiceField(
        choices=[choice for choice in ApiKey.Scope.choices if choice[0] in TENANT_SCOPES],
        initial=[ApiKey.Scope.READ, ApiKey.Scope.WRITE],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Keys of the installation are made by ``manage.py create_operator_key`` alone.
        self.fields["tenant"].required = True

    def create(self) -> ApiKey:
        given = {
            name: self.cleaned_data[name]
            for name in ("tenant", "name", "scopes", "expires_at", "rate_per_second")
        }
        key, self.token = create_api_key(**given)
        return key


class AccessAdmin(ConsoleAdmin):
    """Rows that actions create and that are never deleted."""

    show_full_result_count = False
    compressed_fields = True
    change_form_outer_after_template = TRAIL_LINK

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if isinstance(db_field, IntegerField):
            kwargs["form_class"] = WholeNumberField
        if isinstance(db_field, DateTimeField):
            kwargs["form_class"] = MomentField
        if isinstance(db_field, ForeignKey):
            kwargs["widget"] = RowSelect(db_field, self.admin_site)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Do nothing: the form has written the row."""


@admin.register(Tenant)
class TenantAdmin(AccessAdmin):
    tenant_path = "pk"
    trail_kind = "tenant"
    form = TenantForm
    list_display: tuple[str, ...] = (
        "slug",
        "name",
        "status",
        "weight",
        "max_in_flight",
        "max_jobs",
        "created",
    )
    list_filter = ("status",)
    search_fields = ("slug", "name")
    fieldsets = (
        (None, {"fields": (("slug", "name"), ("status", "weight"))}),
        (
            "Limits",
            {
                # The quotas stand in pairs; the weight stands above.
                "fields": tuple(zip(NAMES[1::2], NAMES[2::2], strict=True))
            },
        ),
        ("Reach", {"fields": ("queues", "disabled_types", "circuit_breaker")}),
        ("API", {"fields": ("require_if_match", "all_events")}),
    )

    actions_detail: tuple[str, ...] = ("rotate_signing_secret",)

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("tenants.change_tenant"))  # type: ignore[union-attr]

    @action(
        description="Rotate signing secret",
        permissions=["operate"],
        icon="autorenew",
        dialog=ActionDialog(
            title="Rotate the signing secret?",
            description="Webhooks are signed with a new secret now, and for a day with the old one too.",
            form_class=BaseDialogForm,
            form_submit_text="Rotate",
        ),
    )
    def rotate_signing_secret(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        tenant = self.get_object(request, object_id)
        if tenant is None:
            raise Http404
        secret = rotate_signing_secret(tenant=tenant)
        self.log_change(request, tenant, "Signing secret rotated.")
        messages.warning(
            request, f"Webhooks are signed with {secret} from now on: copy it now, it is shown only once."
        )
        return back_to(request, reverse("admin:tenants_tenant_change", args=[tenant.pk]))

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """Services and receivers know a tenant by its slug."""
        return ("slug",) if obj else ()

    def get_fieldsets(self, request: HttpRequest, obj: Tenant | None = None) -> Any:
        """Add the values that the page showed, for operators who may change the row."""
        first, *others = super().get_fieldsets(request, obj)
        if obj is None or not self.has_change_permission(request, obj):
            return (first, *others)
        return ((first[0], {**first[1], "fields": (*first[1]["fields"], "seen")}), *others)

    def response_add(
        self, request: HttpRequest, obj: Tenant, post_url_continue: str | None = None
    ) -> HttpResponse:
        messages.warning(
            request,
            f"Its webhooks are signed with {open_signing_secrets(obj.id, obj.webhook_secret)}: copy it now, "
            "it is shown only once.",
        )
        return super().response_add(request, obj, post_url_continue)

    @admin.display(description="created")
    def created(self, tenant: Tenant) -> str:
        return instant(tenant.created_at)


@admin.register(ApiKey)
class ApiKeyAdmin(AccessAdmin):
    tenant_path = "tenant_id"
    trail_kind = "api_key"
    form = ApiKeyForm
    list_display = ("key", "name", "tenant", "scope_list", "expires", "last_used", "revoked")
    list_select_related = ("tenant",)
    search_fields = ("prefix__startswith", "name", "tenant__slug")
    autocomplete_fields = ("tenant",)
    actions_detail = ("rotate", "revoke")
    add_fieldsets = ((None, {"fields": ("tenant", "name", "scopes", "expires_at", "rate_per_second")}),)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("key", "name"),
                    ("tenant", "scope_list"),
                    ("created", "expires"),
                    ("rate_per_second",),
                )
            },
        ),
        ("Use", {"fields": (("last_used", "revoked"),)}),
    )

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A key does not change; it can only be revoked."""
        return False

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("tenants.change_apikey"))  # type: ignore[union-attr]

    def get_form(
        self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm]:
        if change:
            kwargs["form"] = forms.ModelForm
        return super().get_form(request, obj, change=change, **kwargs)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        if not change:
            messages.warning(request, f"The key: {form.token}: copy it now, it is shown only once.")
        return super().save_form(request, form, change)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        key = self.get_object(request, object_id)
        actions = super().get_actions_detail(request, object_id) if key and not key.revoked_at else []
        return [action for action in actions if key.tenant_id or action.path != "rotate"]

    @action(
        description="Rotate",
        permissions=["operate"],
        icon="autorenew",
        dialog=ActionDialog(
            title="Rotate?",
            description="Creates another key like this one, and lets this one expire in a day.",
            form_class=BaseDialogForm,
            form_submit_text="Rotate",
        ),
    )
    def rotate(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        key = self.get_object(request, object_id)
        # The right to rotate tenants' keys must not lead to a key of the installation.
        if key is None or key.tenant_id is None:
            raise Http404
        try:
            successor, text = rotate_api_key(key=key)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return back_to(request, reverse("admin:tenants_apikey_change", args=[key.pk]))
        self.log_change(request, key, f"Rotated: {successor} takes its place.")
        messages.warning(request, f"The new key: {text}: copy it now, it is shown only once.")
        return back_to(request, reverse("admin:tenants_apikey_change", args=[successor.pk]))

    @action(
        description="Revoke",
        permissions=["operate"],
        icon="block",
        variant=ActionVariant.DANGER,
        dialog=ActionDialog(
            title="Revoke?",
            description="Every request with this key is refused from now on. This cannot be undone.",
            form_class=BaseDialogForm,
            form_submit_text="Revoke",
        ),
    )
    def revoke(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        key = self.get_object(request, object_id)
        if key is None:
            raise Http404
        revoke_api_key(key=key)
        self.log_change(request, key, "Revoked.")
        messages.success(request, "Revoked.")
        return back_to(request, reverse("admin:tenants_apikey_change", args=[key.pk]))

    @admin.display(description="key")
    def key(self, key: ApiKey) -> str:
        return f"ck_{key.prefix}_…"

    @admin.display(description="scopes")
    def scope_list(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description="created")
    def created(self, key: ApiKey) -> str:
        return instant(key.created_at)

    @admin.display(description="expires")
    def expires(self, key: ApiKey) -> str:
        return instant(key.expires_at)

    @admin.display(description="last used")
    def last_used(self, key: ApiKey) -> str:
        return instant(key.last_used_at)

    @admin.display(description="revoked")
    def revoked(self, key: ApiKey) -> str:
        return instant(key.revoked_at)


@admin.register(Secret)
class SecretAdmin(AccessAdmin):
    """The list of secrets. Tenants write them, over the API; no page or call reads them."""

    tenant_path = "tenant_id"
    trail_kind = "secret"
    list_display = ("name", "tenant", "bound_to", "version", "created", "updated")
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__slug")
    fieldsets = ((None, {"fields": (("name", "tenant"), ("bound_to",), ("version", "created", "updated"))}),)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @admin.display(description="hosts")
    def bound_to(self, secret: Secret) -> str:
        return ", ".join(secret.hosts)

    @admin.display(description="created")
    def created(self, secret: Secret) -> str:
        return instant(secret.created_at)

    @admin.display(description="last written")
    def updated(self, secret: Secret) -> str:
        return instant(secret.updated_at)
