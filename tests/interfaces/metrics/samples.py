"""``/metrics`` as Prometheus reads it."""

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families


def samples(client: Client) -> dict[tuple[str, ...], float]:
    """Samples by their name and the values of their labels, in the alphabetical order of the labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name.removeprefix("carillon_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
