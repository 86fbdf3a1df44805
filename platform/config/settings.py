"""Django's settings. What may differ between installations comes from `config.env`."""

import gc
from pathlib import Path

from csp.constants import SELF

from config import env
from config.private_home import make_private

# Two thousand modules are loaded next, and nothing of them is garbage: at Python's own threshold a sixth of the time of
# a start goes into looking for some.
gc.set_threshold(50_000)

NEARLINE = env.read()
make_private(NEARLINE.home)

BASE_DIR = Path(__file__).resolve().parents[2]
SECRET_KEY = NEARLINE.secret_key
DEBUG = False
ALLOWED_HOSTS = [host.strip() for host in NEARLINE.allowed_hosts.split(",")]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",
    "allauth",
    "allauth.account",
    "core",
    "accounts",
    "datasets",
    "scheduler",
    "compute",
    "experiments",
    "flows",
    "web",
    "config",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "web.middleware.StaticFiles",
    "web.middleware.CompressPages",
    "web.middleware.StorableTextMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "accounts.web.requests.KnownBrowserMiddleware",
    "web.navigation.ProjectChoiceMiddleware",
    "web.middleware.PlatformErrorMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [
            BASE_DIR / app / "web" / "templates"
            for app in ("platform/accounts", "datasets", "scheduler", "compute", "experiments", "flows")
        ],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "web.navigation.frame",
            ],
            "builtins": ["web.templatetags.nearline"],
        },
    }
]


def database_of(settings: env.Settings) -> dict[str, object]:
    """Return what Django is told of the database."""
    if not settings.database_url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": settings.home / "nearline.sqlite3",
            "TEST": {"NAME": settings.home / "test.sqlite3"},
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": (
                    # 4 MB of pages for each of some 20 threads. What is not among them the system has in memory.
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-4000;"
                    # 16 MB of log: whoever commits then moves it to the database and waits for the disk.
                    "PRAGMA wal_autocheckpoint=4000;"
                ),
            },
        }
    connection = env.read_connection(settings.database_url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": connection.pop("dbname"),
        "USER": connection.pop("user", ""),
        "PASSWORD": connection.pop("password", ""),
        "HOST": connection.pop("host", ""),
        "PORT": connection.pop("port", ""),
        "OPTIONS": connection,
        "CONN_MAX_AGE": 60,
    }


DATABASES = {"default": database_of(NEARLINE)}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": NEARLINE.broker_url}
    if NEARLINE.broker_url
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}

# Which class carries messages to background tasks: within one process, and between processes by a broker.
TASK_QUEUES = {"process": "core.local_queue.LocalQueue", "broker": "config.worker.CeleryQueue"}

# --- sign-in: local accounts, throttled by allauth's rate limits; nobody signs up by themselves
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ACCOUNT_ADAPTER = "accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = {"login": "30/m/ip"}  # those of wrong passwords are in accounts.adapter
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = NEARLINE.url.startswith("https://")
# Else a page of a job, which has a host name of its own, could set them for all host names of a domain.
SESSION_COOKIE_NAME = f"{NEARLINE.cookie_prefix}sessionid"
CSRF_COOKIE_NAME = f"{NEARLINE.cookie_prefix}csrftoken"
CSRF_TRUSTED_ORIGINS = [NEARLINE.url]

# --- what browsers may do with our pages
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "web.error_pages.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "style-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": [SELF],
    }
}

STATIC_URL = "static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
# Each request looks at the disk, so a new build is served without a restart; browsers ask for a hashed name only once.
WHITENOISE_AUTOREFRESH = True
WHITENOISE_IMMUTABLE_FILE_TEST = r"/dist/[\w.-]+-[\w-]{8}\.\w+$"
WHITENOISE_MAX_AGE = 24 * 3600

# Bodies larger than this are streamed by the endpoints that expect them (the folder store), never read into memory.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024
LOGGING_CONFIG = "config.log_setup.configure"
LOGGING = {"level": NEARLINE.log_level}
