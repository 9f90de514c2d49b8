"""All settings. What a site chooses comes from GPUHEALTH_* variables (docs/operating.md); the rest is fixed."""

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP

from diagnostics.clusters import Declaration, DeclarationError, declaration
from diagnostics.retention import RetentionError, retention
from gpuhealth import environment

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = environment.data_dir()

DEBUG = environment.boolean("GPUHEALTH_DEBUG")
SECRET_KEY = environment.secret_key(DATA_DIR)
ALLOWED_HOSTS = environment.listing("GPUHEALTH_ALLOWED_HOSTS", ("127.0.0.1", "localhost", "[::1]"))
BEHIND_TLS = environment.boolean("GPUHEALTH_BEHIND_TLS")
"""A proxy in front speaks TLS and sets X-Forwarded-Proto: cookies are sent over TLS only."""

# What is watched.


def _declaration() -> Declaration:
    from_file = environment.file_text("GPUHEALTH_CLUSTERS_FILE")
    inline = environment.text("GPUHEALTH_CLUSTERS")
    document: dict[str, Any] = {}
    try:
        if from_file is not None:
            document = tomllib.loads(from_file)
        if inline:
            named = msgspec.json.decode(inline, type=dict[str, Any])
            if both := named.keys() & document.get("clusters", {}).keys():
                msg = f"GPUHEALTH_CLUSTERS and GPUHEALTH_CLUSTERS_FILE both declare {', '.join(sorted(both))}"
                raise ImproperlyConfigured(msg)
            document = {**document, "clusters": {**document.get("clusters", {}), **named}}
    except tomllib.TOMLDecodeError as error:
        msg = f"GPUHEALTH_CLUSTERS_FILE is not TOML: {error}"
        raise ImproperlyConfigured(msg) from None
    except msgspec.DecodeError:
        msg = 'GPUHEALTH_CLUSTERS is not a JSON object such as {"prod": {"kubeconfig": "/path"}}'
        raise ImproperlyConfigured(msg) from None
    try:
        return declaration(document, "GPUHEALTH_CLUSTERS" if inline else "GPUHEALTH_CLUSTERS_FILE")
    except DeclarationError as error:
        raise ImproperlyConfigured(str(error)) from None


_declared = _declaration()
CLUSTERS = _declared.clusters
"""Slug -> diagnostics.clusters.DeclaredCluster."""
LIMITS = _declared.limits
try:
    RETENTION = retention(environment.prefixed("GPUHEALTH_RETENTION_"), _declared.retention)
except RetentionError as error:
    raise ImproperlyConfigured(f"GPUHEALTH_RETENTION_…: {error}") from None
POLL_INTERVAL = environment.duration(
    "GPUHEALTH_POLL_INTERVAL", default=timedelta(seconds=60), least=timedelta(seconds=10)
)
BACKFILL = environment.duration("GPUHEALTH_BACKFILL", default=timedelta(days=30), least=timedelta())
"""How far back time that nobody observed is rebuilt from Prometheus."""

# The application.

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "diagnostics",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # Pads by chance, so that the length of a page tells nothing of its tokens (BREACH).
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # Every page wants a signed-in user, unless it says `login_not_required`.
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "gpuhealth.urls"
WSGI_APPLICATION = "gpuhealth.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Store and work.

DATABASES = {
    "default": environment.database("GPUHEALTH_DATABASE_URL", default=DATA_DIR / "gpuhealth.sqlite3"),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
BROKER_URL = environment.broker("GPUHEALTH_BROKER_URL")

# Times are UTC in store; this zone is for periods (days, weeks) and for people.
USE_TZ = True
TIME_ZONE = environment.time_zone("GPUHEALTH_TIME_ZONE")
LANGUAGE_CODE = "en"
USE_I18N = False

# Who may come in.

AUTH_USER_MODEL = "diagnostics.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "sesame.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

# Sign-in links are short-lived and work once: signing in changes `last_login`, which they are bound to.
SESAME_TOKENS = ["sesame.tokens_v2"]
SESAME_TOKEN_NAME = "token"  # noqa: S105 - a parameter's name
SESAME_MAX_AGE = timedelta(minutes=15)
SESAME_ONE_TIME = True

SESSION_COOKIE_NAME = "gpuhealth_session"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_SAMESITE = "Lax"  # Strict would forget who is signed in on every link from a chat or ticket
CSRF_COOKIE_NAME = "gpuhealth_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SAMESITE = "Strict"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF, CSP.NONCE],
    "img-src": [CSP.SELF, "data:"],
    "connect-src": [CSP.SELF],
    "font-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
    "base-uri": [CSP.NONE],
}

# Static files: served by the web process itself, compressed and with names that change with their content.

STATIC_URL = "static/"
STATIC_ROOT = environment.folder("GPUHEALTH_STATIC_ROOT", BASE_DIR / "staticfiles")
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "gpuhealth.bundles.PlotlyFinder",
]
_PLAIN_STATIC = "django.contrib.staticfiles.storage.StaticFilesStorage"
_HASHED_STATIC = "whitenoise.storage.CompressedManifestStaticFilesStorage"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": _PLAIN_STATIC if DEBUG else _HASHED_STATIC},
}
WHITENOISE_USE_FINDERS = DEBUG

# Logs go to standard error, as JSON where a machine reads them. No request bodies, no query strings.

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s"},
        "json": {"()": "gpuhealth.logs.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": environment.choice("GPUHEALTH_LOG_FORMAT", ("text", "json")),
        },
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.server": {"handlers": [], "level": "WARNING", "propagate": True},
    },
}
