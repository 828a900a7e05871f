"""Django settings. Every value that differs between deployments comes from ``environment`` (12-factor)."""

import os
from datetime import timedelta
from pathlib import Path

from django.templatetags.static import static
from kombu import Queue

from jobs.core.schedule import ScheduleType
from jobs.core.states import AttemptState, JobStatus, TriggerState
from jobs.core.workflows.states import Condition, RunState, TaskRunState
from jobs.telemetry import logging_config
from jobs.telemetry.traces import traces_config
from scheduler_project import environment, tracing

BASE_DIR = Path(__file__).resolve().parent.parent
PLATFORM, CARILLON = environment.load()

SECRET_KEY = PLATFORM.key()
ENCRYPTION_KEYS = PLATFORM.sealing_keys()
TRAIL_KEYS = PLATFORM.signing_keys()
DEBUG = PLATFORM.debug
ALLOWED_HOSTS = PLATFORM.hosts()
CSRF_TRUSTED_ORIGINS = list(PLATFORM.csrf_trusted_origins)

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "scheduler_project.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_results",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "scheduler_project",
    "tenants",
    "jobs",
]

MIDDLEWARE = [
    "scheduler_project.web.requests.name_requests",
    "scheduler_project.web.counted.count_requests",
    "scheduler_project.web.forwarded.believe_proxies",
    "django.middleware.security.SecurityMiddleware",
    "scheduler_project.web.answers.PagePolicy",
    "scheduler_project.web.answers.CompressTexts",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "scheduler_project.web.answers.Slashes",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "scheduler_project.web.sessions.keep_sessions",
    "scheduler_project.processes.acting.actor_middleware",
    "scheduler_project.web.logins.limit_logins",
    "scheduler_project.signin.gate.ask_for_second_factor",
    "jobs.admin.shared.requests.refuse_nul",
    "jobs.admin.shared.requests.note_writes",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

# Whether operators may, or must, have a second factor. If neither, no page asks for one.
SECOND_FACTOR = PLATFORM.second_factor
# The identity provider that operators may sign in by, if there is one; and whether passwords sign in beside it.
OIDC = PLATFORM.oidc()
PASSWORD_SIGN_IN = PLATFORM.password_sign_in

ROOT_URLCONF = "scheduler_project.urls"
WSGI_APPLICATION = "scheduler_project.wsgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "jobs.admin.installation.levers.banner",
            ]
        },
    }
]

DATABASES = {"default": PLATFORM.database()}
# The replica, from which history may be read, and the router that decides it (jobs.store.replica).
if REPLICA_DATABASE := PLATFORM.replica_database():
    DATABASES["replica"] = REPLICA_DATABASE
    DATABASE_ROUTERS = ["jobs.store.db.routing.HistoryRouter"]
# Where there is a pooler, web processes and workers connect to this one instead (scheduler_project.sessions).
POOLED_DATABASE = PLATFORM.pooled_database()
# For sessions that listen they still connect to this one (jobs.own_session).
DIRECT_DATABASE = dict(DATABASES["default"]) if POOLED_DATABASE else {}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The target of a sign-in that was not on its way to a page.
LOGIN_REDIRECT_URL = "admin:index"
AUTHENTICATION_BACKENDS = ["tenants.console.reach.BoundBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
# Served straight from the packages: nothing to collect. Browsers keep a file for a day. A file with new content has a
# new address, except fonts, which stylesheets name by themselves.
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 86_400
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "scheduler_project.web.files.VersionedFiles"},
}

# Safe by default; CARILLON_HTTPS=1 adds the settings that only make sense behind TLS.
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = round(PLATFORM.session_hours * 3600)
# Keys are shown once in a message. A cookie would carry the message, readable, to any other service on this host.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PLATFORM.https
SECURE_SSL_REDIRECT = PLATFORM.https
# Prometheus, with a token, and health checks call without the proxy. No server here listens on a redirect's port.
SECURE_REDIRECT_EXEMPT = ["^(metrics|livez|readyz)$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PLATFORM.https else None
SECURE_HSTS_SECONDS = 31_536_000 if PLATFORM.https else 0
# Only the domain's owner can say whether every subdomain speaks TLS, and whether browsers should have that built in.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
# The policy of pages; the API's answers have a stricter one. The admin's Alpine evaluates expressions. Its templates
# and the API's documentation hold scripts and styles, and none of them has nonces. CORS is off: no header of it is ever
# sent.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'", "'unsafe-inline'", "'unsafe-eval'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tenants.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["jobs.api.renderers.FastJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["jobs.api.parsers.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "jobs.api.pagination.IdCursorPagination",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "jobs.api.problems.problem_handler",
    "UNAUTHENTICATED_USER": None,
    # ``?format=`` would answer 404 for a value that is no format; the Accept header is enough.
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Carillon",
    "DESCRIPTION": "A distributed, multi-tenant job scheduler: cron, but durable, fair and explainable.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "jobs.api.schema.finish",
    ],
    "ENUM_NAME_OVERRIDES": {
        "JobStatusEnum": list(JobStatus),
        "TriggerStateEnum": list(TriggerState),
        "AttemptStateEnum": list(AttemptState),
        "RunStateEnum": list(RunState),
        "TaskRunStateEnum": list(TaskRunState),
        "ConditionEnum": list(Condition),
        "OnEnum": "jobs.shapes.notify.ON",
        "RunOnEnum": "jobs.shapes.notify.RUN_ON",
        "TenantOnEnum": "jobs.shapes.notify.TENANT_ON",
        "TenantStatusEnum": ["active", "suspended", "frozen"],
        "GateEnum": "jobs.shapes.explain.GATE_NAMES",
        "RunGateEnum": "jobs.shapes.workflow.explain.RUN_GATE_NAMES",
        "TaskGateEnum": "jobs.shapes.workflow.explain.TASK_GATE_NAMES",
        "ScheduleTypeEnum": list(ScheduleType),
        "OriginEnum": "jobs.models.Origin.values",
    },
}

UNFOLD = {
    "SITE_TITLE": "Carillon",
    "SITE_HEADER": "Carillon",
    "SITE_SUBHEADER": "Operators' console",
    "SITE_SYMBOL": "notifications_active",
    # A bell as a data URL, so that no file must be served.
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='%239333ea'"
            "%3E%3Cpath d='M12 2a2 2 0 0 0-2 2 6 6 0 0 0-4 6v6l-2 2v1h16v-1l-2-2v-6a6 6 0 0 0-4-6 2 2 0 0 0-2-2z"
            "m-2 18a2 2 0 0 0 4 0z'/%3E%3C/svg%3E",
        }
    ],
    "SHOW_VIEW_ON_SITE": False,
    # There is no other site: "/" leads here.
    "SITE_URL": None,
    "STYLES": [
        lambda request: static("console/console.css"),
        lambda request: static("console/people.css"),
    ],
    "SCRIPTS": [
        lambda request: static("console/keyboard.js"),
        lambda request: static("console/times.js"),
        lambda request: static("console/copy.js"),
    ],
    "ENVIRONMENT": "jobs.admin.shared.navigation.environment",
    "ACCOUNT": {"navigation": "scheduler_project.signin.gate.account_links"},
    "DASHBOARD_CALLBACK": "jobs.admin.overview.page.dashboard",
    "SIDEBAR": {
        "navigation": "jobs.admin.shared.navigation.navigation",
        "show_search": True,
        "command_search": True,
    },
}

METRICS_TOKEN = PLATFORM.metrics_token or ""

# Notices by e-mail; without EMAIL_URL none are accepted.
globals().update(PLATFORM.email())

# The Redis of rate limits and wake-ups. While it is away, their users go on without it. Empty: they use Postgres
# (docs/adr/0030).
REDIS_URL = PLATFORM.redis()

# Celery. Settings and their reasons: docs/architecture.md, "Celery settings".
CELERY_BROKER_URL = PLATFORM.broker()
CELERY_RESULT_BACKEND = "scheduler_project.worker.results:SummaryBackend"
CELERY_RESULT_EXTENDED = True
CELERY_RESULT_EXPIRES = timedelta(days=CARILLON.history_days)
CELERY_TIMEZONE = "UTC"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# The lease recovers lost work, never the broker: acknowledge on receipt.
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_CREATE_MISSING_QUEUES = False
# Carillon sends nothing there; it only names the exchange that other projects share with Carillon.
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_QUEUES: list[Queue] = []  # one per job type; filled by scheduler_project.celery
CELERY_TASK_SEND_SENT_EVENT = False
CELERY_TASK_TRACK_STARTED = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = True
CELERY_WORKER_CONSUMER = "scheduler_project.worker.consumer:Consumer"
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 5
CELERY_BEAT_MAX_LOOP_INTERVAL = 0.5
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        # One list per queue instead of four, and a third of the round trips; our reap replaces redelivery. There is a
        # second list where workers keep slots free for messages in the first (scheduler_project.worker.consumer).
        "priority_steps": [0, 1] if CARILLON.reserved_slots else [0],
        "ack_emulation": False,
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }
    if CELERY_BROKER_URL.startswith(("redis", "sentinel"))
    else {"confirm_publish": True, "read_timeout": 5, "write_timeout": 5}
)
if not CELERY_BROKER_URL.startswith(("redis", "sentinel")):
    # RabbitMQ and its clients give each other up after twice as many seconds; other workers then get a lost worker's
    # messages.
    CELERY_BROKER_HEARTBEAT = 20

LOGGING_CONFIG = None
logging_config(log_format=CARILLON.log_format, level=CARILLON.log_level)
traces_config(on=tracing.is_on(os.environ))
