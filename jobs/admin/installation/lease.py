"""Leases: which beat leads, under which term, until when. Read-only."""

from django.contrib import admin

from jobs.admin.shared.cells import instant_cell
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.models import Lease


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    list_display = ("name", "holder", "term", "expires")
    ordering = ("name",)
    fields = ("name", "holder", "term", "expires")

    @admin.display(description="expires")
    def expires(self, lease: Lease) -> str:
        return instant_cell(lease.expires_at)
