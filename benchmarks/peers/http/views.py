"""Creation over HTTP without Carillon: ``gunicorn …views:application``; ``python -m …views`` makes its tables first.

Each service does one thing and answers 201: ``insert`` writes a row, ``entries`` makes a ``PeriodicTask`` of
django-celery-beat through a serializer of DRF (``entries/bulk`` many, by one ``bulk_create``), ``task`` sends a Celery
task. No service has a key, a tenant, a quota or a record of its work.
"""

import json
from typing import Any

from benchmarks.peers.schedulers import django_beat  # first: it configures the project that the others read

# isort: split
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import ModelSerializer
from rest_framework.views import APIView


def insert(request: HttpRequest) -> JsonResponse:
    sent = json.loads(request.body)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO entry (name, document) VALUES (%s, %s) RETURNING id",
            [sent["name"], json.dumps(sent)],
        )
        (created,) = cursor.fetchone()
    return JsonResponse({"id": created, **sent}, status=201)


def task(request: HttpRequest) -> JsonResponse:
    sent = json.loads(request.body)
    result = django_beat.app.tasks["stamp"].apply_async(args=[sent["name"]])
    return JsonResponse({"id": result.id}, status=201)


class EntrySerializer(ModelSerializer[Any]):
    class Meta:
        model = PeriodicTask
        fields = ("id", "name", "task", "interval", "args", "kwargs", "enabled", "date_changed")


class Entries(APIView):
    authentication_classes = permission_classes = ()

    def post(self, request: Request) -> Response:
        entry = EntrySerializer(data=request.data)
        entry.is_valid(raise_exception=True)
        entry.save()
        return Response(entry.data, status=201)


class EntriesInBulk(APIView):
    authentication_classes = permission_classes = ()

    def post(self, request: Request) -> Response:
        entries = EntrySerializer(data=request.data["jobs"], many=True)
        entries.is_valid(raise_exception=True)
        PeriodicTask.objects.bulk_create([PeriodicTask(**entry) for entry in entries.validated_data])
        PeriodicTasks.update_changed()
        return Response({"created": len(entries.validated_data)}, status=201)


urlpatterns = [
    path("insert", insert),
    path("entries", Entries.as_view()),
    path("entries/bulk", EntriesInBulk.as_view()),
    path("task", task),
]
application = WSGIHandler()


def make_tables() -> int:
    """Returns the id of an interval for entries."""
    call_command("migrate", "--no-input", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE entry (id bigserial PRIMARY KEY, name text UNIQUE, document jsonb)")
    interval: int = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS).id
    return interval


if __name__ == "__main__":
    print(make_tables())
