"""The event feed over the API: in pages, or as server-sent events."""

from jobs.api.events.feed import EventsView

__all__ = ("EventsView",)
