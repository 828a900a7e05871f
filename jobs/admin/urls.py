"""Addresses of the console's own pages, below ``/admin/`` and before Django's."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
