# One image for web, beat, workers and Flower; docker-compose.yml says which command each runs.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app

# Ahead of the code, so that an edit does not install anew.
COPY requirements/base.txt requirements/base.txt
RUN pip install --no-cache-dir --disable-pip-version-check -r requirements/base.txt

COPY manage.py ./
COPY scheduler_project scheduler_project
COPY tenants tenants
COPY jobs jobs
COPY templates templates

RUN useradd --system --uid 10001 --no-create-home carillon
USER carillon

EXPOSE 8000
CMD ["gunicorn", "scheduler_project.wsgi:application", "--bind", "0.0.0.0:8000", "--no-control-socket", \
     "--worker-class", "gthread", "--workers", "2", "--threads", "16", "--graceful-timeout", "10", \
     "--worker-tmp-dir", "/dev/shm"]
