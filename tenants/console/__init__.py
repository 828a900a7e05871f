"""The rules that every page of the operators' console keeps to, and the pages of operators themselves."""

from tenants.console.pages import ConsoleAdmin, back_to

__all__ = ("ConsoleAdmin", "back_to")
