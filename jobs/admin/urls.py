"""Addresses of the console's own pages, below ``/admin/`` and before Django's."""

from django.urls import URLPattern, path

from jobs.admin.charts.page import Charts, Figures
from jobs.admin.editing.payload import PayloadFields
from jobs.admin.editing.preview import SchedulePreview
from jobs.admin.editing.test_send import TestSend, TestSendProgress
from jobs.admin.find.page import FindPage
from jobs.admin.firings.failures import FailureAct, FailuresPage
from jobs.admin.installation.state import InstallationState
from jobs.admin.installation.workers import TellWorker, WorkerFiguresPage, Workers
from jobs.admin.job.bulk.page import BulkPage
from jobs.admin.operations.progress import OperationProgress, UnfinishedOperations
from jobs.admin.overview.page import OverviewFigures
from jobs.admin.overview.playbooks import Playbooks
from jobs.admin.upcoming.page import Upcoming
from jobs.admin.workflows.progress import RunProgress
from jobs.admin.workflows.task import TaskPanel

urlpatterns: list[URLPattern] = [
    path("charts/", Charts.as_view(), name="console_charts"),
    path("charts/figures/", Figures.as_view(), name="console_charts_figures"),
    path("failures/", FailuresPage.as_view(), name="failures"),
    path("failures/act/", FailureAct.as_view(), name="failures_act"),
    path("overview/figures/", OverviewFigures.as_view(), name="overview_figures"),
    path("jobs/job/bulk/<str:verb>/", BulkPage.as_view(), name="jobs_bulk"),
    path("jobs/operation/unfinished/", UnfinishedOperations.as_view(), name="operations_unfinished"),
    path(
        "jobs/operation/<uuid:operation_id>/progress/", OperationProgress.as_view(), name="operation_progress"
    ),
    path("search/", FindPage.as_view(), name="find"),
    path("upcoming/", Upcoming.as_view(), name="console_upcoming"),
    path("jobs/job/form/preview/", SchedulePreview.as_view(), name="console_job_preview"),
    path("jobs/job/form/payload/", PayloadFields.as_view(), name="console_job_payload"),
    path("jobs/job/form/test-send/", TestSend.as_view(), name="console_job_test_send"),
    path("jobs/job/form/test-send/<uuid:job_id>/", TestSendProgress.as_view(), name="console_job_test_sent"),
    path("installation/", InstallationState.as_view(), name="installation_state"),
    path("playbooks/", Playbooks.as_view(), name="playbooks"),
    path("playbooks/<slug:name>/", Playbooks.as_view(), name="playbook"),
    path("workflow-runs/<uuid:run_id>/progress/", RunProgress.as_view(), name="workflow_run_progress"),
    path("workflow-runs/<uuid:run_id>/tasks/<slug:task>/", TaskPanel.as_view(), name="workflow_task"),
    path("workers/", Workers.as_view(), name="workers"),
    path("workers/figures/", WorkerFiguresPage.as_view(), name="worker_figures"),
    path("workers/<str:verb>/", TellWorker.as_view(), name="tell_worker"),
]
