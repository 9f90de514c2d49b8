# One image for web, worker and beat; docker-compose.yml says what each of them runs.

FROM python:3.13-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gpuhealth
ENV PATH=/opt/gpuhealth/bin:$PATH
WORKDIR /app

# Dependencies change less often than the code, so they are a layer of their own.
COPY requirements/ requirements/
RUN pip install --require-hashes -r requirements/build.txt -r requirements/runtime.txt

COPY . .
# Editable, because templates and static files lie beside the packages: /app is copied as it is into the image below.
RUN pip install --no-deps --no-build-isolation --editable .
# The settings want a key before they do anything; this one signs nothing and stays in the stage that is thrown away.
RUN GPUHEALTH_SECRET_KEY=collectstatic-only-never-used-to-sign-anything python manage.py collectstatic --no-input
RUN python -m compileall -q /app/diagnostics /app/gpuhealth


FROM python:3.13-slim

# A fixed number, so that a volume or a mounted file can be given to it.
RUN groupadd --gid 10001 gpuhealth \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin gpuhealth \
    && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/gpuhealth

COPY --from=build /opt/gpuhealth /opt/gpuhealth
COPY --from=build /app /app

ENV PATH=/opt/gpuhealth/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GPUHEALTH_DATA_DIR=/var/lib/gpuhealth
WORKDIR /app
USER 10001:10001
EXPOSE 8000

# For the web server; docker-compose.yml says how worker and beat are asked. Django answers only to names that the
# site allows, so the first of them is given.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --start-interval=2s \
    CMD ["python", "-c", "import os, urllib.request as r; host = os.environ.get('GPUHEALTH_ALLOWED_HOSTS', '127.0.0.1').split(',')[0].strip().lstrip('.'); r.urlopen(r.Request('http://127.0.0.1:8000/healthz', headers={'Host': host}), timeout=4)"]

# /dev/shm: gunicorn's sign of life must not wait for a slow disk, and the root file system may be read-only.
CMD ["gunicorn", "gpuhealth.wsgi", "--bind=0.0.0.0:8000", "--workers=2", "--threads=4", "--worker-tmp-dir=/dev/shm", "--no-control-socket", "--access-logfile=-"]
