# One image for web, beat, workers and Flower; docker-compose.yml says which command each runs.
# A digest behind the tag, python:3.11.14-slim@sha256:…, gives the same bytes for ever.
ARG PYTHON_IMAGE=python:3.11.14-slim
FROM ${PYTHON_IMAGE}

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app

# Before the code, so that an edit of the code does not install the packages again.
COPY requirements/base.txt requirements/base.txt
COPY requirements/archive.txt requirements/archive.txt
COPY requirements/otel.txt requirements/otel.txt
# --build-arg TRACES=1 adds packages that send traces to a collector, ARCHIVE=1 those that archive history in a bucket.
ARG TRACES=
ARG ARCHIVE=
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/base.txt \
    ${TRACES:+-r requirements/otel.txt} ${ARCHIVE:+-r requirements/archive.txt}

COPY manage.py ./
# Processes report the version that it holds.
COPY pyproject.toml ./
COPY gunicorn.conf.py ./
COPY scheduler_project scheduler_project
COPY tenants tenants
COPY jobs jobs
COPY templates templates
# The console shows them.
COPY docs/playbooks docs/playbooks

RUN useradd --system --uid 10001 --no-create-home carillon
USER carillon

EXPOSE 8000
# All other options of the server are in gunicorn.conf.py.
CMD ["gunicorn", "scheduler_project.wsgi:application", "--bind", "0.0.0.0:8000"]
