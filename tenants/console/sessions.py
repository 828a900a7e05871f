"""The page of sessions: who is signed in, since when, from where, last seen when.

An operator who may delete a session ends it. To end a session is to delete its row: the browser's next request finds
none and is asked for the password (``scheduler_project.web.sessions``). The audit trail has it from the table.
"""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse
from unfold.dataclasses import ActionDialog
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from tenants.console.pages import ConsoleAdmin, back_to
from tenants.console.words import instant
from tenants.models import OperatorSession


@admin.register(OperatorSession)
class OperatorSessionAdmin(ConsoleAdmin):
    list_display = ("operator", "began", "seen", "address", "signed_in_by")
    list_select_related = ("operator",)
    list_per_page = 50
    show_full_result_count = False
    ordering = ("-seen_at",)
    search_fields = ("operator__username",)
    search_help_text = "An operator's name, or a part of it"
    fields = ("operator", "began", "seen", "address", "signed_in_by")
    actions = ("end_selected",)
    actions_detail = ("end",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Django's deletion would ask for rights over related rows; ``end`` does not."""
        return False

    def has_end_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("tenants.delete_operatorsession"))  # type: ignore[union-attr]

    @admin.action(description="End the selected sessions", permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[OperatorSession]) -> None:
        count, _ = queryset.delete()
        messages.success(request, f"Ended {count:,} sessions.")

    @action(
        description="End",
        permissions=["end"],
        icon="logout",
        variant=ActionVariant.DANGER,
        dialog=ActionDialog(
            title="End this session?",
            description="The next request of its browser asks for the password.",
            form_class=BaseDialogForm,
            form_submit_text="End it",
        ),
    )
    def end(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        session = self.get_object(request, object_id)
        if session is None:
            raise Http404
        session.delete()
        messages.success(request, f"The session of {session.operator} is ended.")
        return back_to(request, reverse("admin:tenants_operatorsession_changelist"))

    @admin.display(description="since", ordering="began_at")
    def began(self, session: OperatorSession) -> str:
        return instant(session.began_at)

    @admin.display(description="last seen", ordering="seen_at")
    def seen(self, session: OperatorSession) -> str:
        return instant(session.seen_at)
