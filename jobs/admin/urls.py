"""Addresses of the console's own pages, below ``/admin/`` and before Django's."""

from django.urls import URLPattern, path

from jobs.admin.find.page import FindPage
from jobs.admin.overview.page import OverviewFigures

urlpatterns: list[URLPattern] = [
    path("overview/figures/", OverviewFigures.as_view(), name="overview_figures"),
    path("search/", FindPage.as_view(), name="find"),
]
