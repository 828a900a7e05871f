"""The paths of ``/api/v1``, without trailing slashes (DESIGN §10)."""

from django.urls import path

from jobs.api import pull
from jobs.api.events import EventsView, TenantNotifyView, TrailView
from jobs.api.vault import views as vault
from jobs.api.views import (
    backfills,
    bulk,
    explain,
    installation,
    jobs,
    outcomes,
    service,
    targets,
    tenancy,
    triggers,
)
from jobs.api.workflows import answers, definitions, runs, schedules

urlpatterns = [
    path("jobs", jobs.JobsView.as_view(), name="jobs"),
    path("jobs/bulk", bulk.BulkView.as_view(), name="jobs-bulk"),
    path("jobs/by-name/<path:name>", jobs.JobByNameView.as_view(), name="job-by-name"),
    path("jobs/<uuid:job_id>", jobs.JobView.as_view(), name="job"),
    path("jobs/<uuid:job_id>/pause", jobs.PauseView.as_view(), name="job-pause"),
    path("jobs/<uuid:job_id>/resume", jobs.ResumeView.as_view(), name="job-resume"),
    path("jobs/<uuid:job_id>/cancel", jobs.CancelView.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>/run", jobs.RunView.as_view(), name="job-run"),
    path("jobs/<uuid:job_id>/backfill", backfills.BackfillView.as_view(), name="job-backfill"),
    path("jobs/<uuid:job_id>/backfills", backfills.BackfillsView.as_view(), name="job-backfills"),
    path(
        "jobs/<uuid:job_id>/backfills/<uuid:backfill_id>/cancel",
        backfills.BackfillCancelView.as_view(),
        name="job-backfill-cancel",
    ),
    path("jobs/<uuid:job_id>/status", jobs.StatusView.as_view(), name="job-status"),
    path("jobs/<uuid:job_id>/triggers", jobs.JobTriggersView.as_view(), name="job-triggers"),
    path("jobs/<uuid:job_id>/attempts", jobs.JobAttemptsView.as_view(), name="job-attempts"),
    path("jobs/<uuid:job_id>/executions", jobs.JobExecutionsView.as_view(), name="job-executions"),
    path("jobs/<uuid:job_id>/preview", service.JobPreviewView.as_view(), name="job-preview"),
    path("jobs/<uuid:job_id>/explain", explain.JobExplainView.as_view(), name="job-explain"),
    path("jobs/<uuid:job_id>/stats", outcomes.JobStatsView.as_view(), name="job-stats"),
    path("schedules/preview", service.SchedulePreviewView.as_view(), name="schedule-preview"),
    path("triggers", triggers.TriggersView.as_view(), name="triggers"),
    path("triggers/<uuid:trigger_id>", triggers.TriggerView.as_view(), name="trigger"),
    path(
        "triggers/<uuid:trigger_id>/attempts", triggers.TriggerAttemptsView.as_view(), name="trigger-attempts"
    ),
    path("triggers/<uuid:trigger_id>/explain", explain.TriggerExplainView.as_view(), name="trigger-explain"),
    path("triggers/<uuid:trigger_id>/cancel", triggers.TriggerCancelView.as_view(), name="trigger-cancel"),
    path("triggers/<uuid:trigger_id>/replay", triggers.TriggerReplayView.as_view(), name="trigger-replay"),
    path("stats", outcomes.TenantStatsView.as_view(), name="stats"),
    path("attempts", outcomes.AttemptsView.as_view(), name="attempts"),
    path("attempts/<uuid:attempt_id>", outcomes.AttemptView.as_view(), name="attempt"),
    path("dead-letters", triggers.DeadLettersView.as_view(), name="dead-letters"),
    path("dead-letters/dismiss", triggers.DeadLettersDismissView.as_view(), name="dead-letters-dismiss"),
    path("dead-letters/replay", triggers.DeadLettersReplayView.as_view(), name="dead-letters-replay"),
    path("operations", bulk.OperationsView.as_view(), name="operations"),
    path("operations/<uuid:operation_id>", bulk.OperationView.as_view(), name="operation"),
    path("operations/<uuid:operation_id>/pause", bulk.OperationPauseView.as_view(), name="operation-pause"),
    path(
        "operations/<uuid:operation_id>/resume", bulk.OperationResumeView.as_view(), name="operation-resume"
    ),
    path(
        "operations/<uuid:operation_id>/cancel", bulk.OperationCancelView.as_view(), name="operation-cancel"
    ),
    path("workflows", definitions.WorkflowsView.as_view(), name="workflows"),
    path("workflows/<uuid:workflow_id>", definitions.WorkflowView.as_view(), name="workflow"),
    path("workflows/<uuid:workflow_id>/runs", runs.RunWorkflowView.as_view(), name="workflow-run-now"),
    path("workflows/<uuid:workflow_id>/pause", schedules.PauseWorkflowView.as_view(), name="workflow-pause"),
    path(
        "workflows/<uuid:workflow_id>/resume", schedules.ResumeWorkflowView.as_view(), name="workflow-resume"
    ),
    path(
        "workflows/<uuid:workflow_id>/backfills",
        schedules.BackfillsView.as_view(),
        name="workflow-backfills",
    ),
    path(
        "workflows/<uuid:workflow_id>/backfills/<uuid:backfill_id>/cancel",
        schedules.BackfillCancelView.as_view(),
        name="workflow-backfill-cancel",
    ),
    path(
        "workflows/<uuid:workflow_id>/versions", definitions.VersionsView.as_view(), name="workflow-versions"
    ),
    path(
        "workflows/<uuid:workflow_id>/versions/<int:number>",
        definitions.VersionView.as_view(),
        name="workflow-version",
    ),
    path(
        "workflows/<uuid:workflow_id>/versions/<int:number>/compare/<int:other>",
        definitions.CompareView.as_view(),
        name="workflow-compare",
    ),
    path(
        "workflows/<uuid:workflow_id>/versions/<int:number>/restore",
        definitions.RestoreView.as_view(),
        name="workflow-restore",
    ),
    path("workflow-runs", runs.WorkflowRunsView.as_view(), name="workflow-runs"),
    path("workflow-runs/<uuid:run_id>", runs.WorkflowRunView.as_view(), name="workflow-run"),
    path("workflow-runs/<uuid:run_id>/explain", runs.ExplainRunView.as_view(), name="workflow-run-explain"),
    path("workflow-runs/<uuid:run_id>/cancel", runs.CancelRunView.as_view(), name="workflow-run-cancel"),
    path("workflow-runs/<uuid:run_id>/pause", runs.PauseRunView.as_view(), name="workflow-run-pause"),
    path("workflow-runs/<uuid:run_id>/resume", runs.ResumeRunView.as_view(), name="workflow-run-resume"),
    path("workflow-runs/<uuid:run_id>/retry", runs.RetryRunView.as_view(), name="workflow-run-retry"),
    path(
        "workflow-runs/<uuid:run_id>/signals/<slug:name>",
        answers.SignalView.as_view(),
        name="workflow-run-signal",
    ),
    path(
        "workflow-runs/<uuid:run_id>/tasks/<slug:task>/approve",
        answers.ApproveView.as_view(),
        name="workflow-run-approve",
    ),
    path(
        "workflow-runs/<uuid:run_id>/tasks/<slug:task>/refuse",
        answers.RefuseView.as_view(),
        name="workflow-run-refuse",
    ),
    path(
        "workflow-runs/<uuid:run_id>/tasks/<slug:task>/items",
        runs.ItemsView.as_view(),
        name="workflow-run-items",
    ),
    path("tenant", explain.TenantView.as_view(), name="tenant"),
    path("secrets", vault.SecretsView.as_view(), name="secrets"),
    path("secrets/<str:name>", vault.SecretView.as_view(), name="secret"),
    path("signing-secret", vault.SigningSecretView.as_view(), name="signing-secret"),
    path("tenant/notify", TenantNotifyView.as_view(), name="tenant-notify"),
    path("job-types", service.JobTypesView.as_view(), name="job-types"),
    path("job-types/<str:name>", pull.JobTypeView.as_view(), name="job-type"),
    path("installation", installation.InstallationView.as_view(), name="installation"),
    path(
        "installation/job-types",
        installation.InstallationJobTypesView.as_view(),
        name="installation-job-types",
    ),
    path(
        "installation/job-types/<str:name>",
        installation.InstallationJobTypeView.as_view(),
        name="installation-job-type",
    ),
    path("installation/targets", targets.TargetsView.as_view(), name="installation-targets"),
    path("installation/targets/<str:pattern>", targets.TargetView.as_view(), name="installation-target"),
    path("installation/tenants", tenancy.TenantsView.as_view(), name="installation-tenants"),
    path(
        "installation/tenants/<str:slug>",
        tenancy.TenantOfInstallationView.as_view(),
        name="installation-tenant",
    ),
    path("installation/tenants/<str:slug>/keys", tenancy.KeysView.as_view(), name="installation-keys"),
    path(
        "installation/tenants/<str:slug>/keys/<str:prefix>",
        tenancy.KeyView.as_view(),
        name="installation-key",
    ),
    path("events", EventsView.as_view(), name="events"),
    path("audit", TrailView.as_view(), name="audit"),
    path("worker/claim", pull.ClaimView.as_view(), name="worker-claim"),
    path("worker/heartbeat", pull.HeartbeatView.as_view(), name="worker-heartbeat"),
    path("worker/complete", pull.CompleteView.as_view(), name="worker-complete"),
]
