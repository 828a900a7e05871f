"""URLs of the whole project: the admin, the API with its documentation, the health checks and metrics."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerView

from jobs.api import metrics
from jobs.api.problems import unknown_path
from jobs.api.schema import DescriptionView
from jobs.api.views import health

# Only processes that load this module need the console's pages (scheduler_project.apps).
admin.autodiscover()

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", include("jobs.admin.urls")),
    path("admin/", include("scheduler_project.signin.urls")),
    path("admin/", admin.site.urls),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("api/v1/", include("jobs.api.urls")),
    path("api/schema", DescriptionView.as_view(), name="schema"),
    path("api/docs", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    re_path(r"^api(?:/|$)", unknown_path, name="unknown"),
]

handler403 = "jobs.admin.shared.refusals.denied"
handler404 = "jobs.admin.shared.refusals.missing"
handler400 = "jobs.api.problems.bad_request"
handler500 = "jobs.api.problems.server_error"
