"""The web application, for gunicorn: `gunicorn gpuhealth.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuhealth.settings")

application = get_wsgi_application()
