"""Addresses of the console's own pages, below ``/admin/`` and before Django's."""

from django.urls import URLPattern, path

from jobs.admin.overview.page import OverviewFigures

urlpatterns: list[URLPattern] = [
    path("overview/figures/", OverviewFigures.as_view(), name="overview_figures"),
]
