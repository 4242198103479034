"""For gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integrations.django_shop.settings")
application = get_wsgi_application()
