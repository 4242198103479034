"""Settings of the project. SHOP_DB: where its database is, by Django's words, as JSON."""

import json
import os
from pathlib import Path

BASE = Path(os.environ.get("SHOP_DIR", "."))
SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.integrations.django_shop.urls"
USE_TZ = True
DATABASES = {
    "default": json.loads(os.environ.get("SHOP_DB", "null"))
    or {"ENGINE": "django.db.backends.sqlite3", "NAME": str(BASE / "shop.db"), "OPTIONS": {"timeout": 20}}
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "holdfast.ext.django",
    "tests.integrations.django_shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
HOLDFAST_APP = os.environ.get("SHOP_APP", "tests.integrations.web_shop:app")
HOLDFAST_CONSOLE_URL = "https://ops.example.org/"
