"""The event feed over the API, in pages or as server-sent events, and who is told of what."""

from jobs.api.events.feed import EventsView
from jobs.api.events.notify import TenantNotifyView

__all__ = ("EventsView", "TenantNotifyView")
