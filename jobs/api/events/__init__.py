"""The event feed over the API, in pages or as server-sent events, the notices of a tenant, and the audit trail."""

from jobs.api.events.feed import EventsView
from jobs.api.events.notify import TenantNotifyView
from jobs.api.events.trail import TrailView

__all__ = ("EventsView", "TenantNotifyView", "TrailView")
