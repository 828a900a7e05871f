"""RabbitMQ with quorum queues, which refuse a prefetch count for a whole worker. ``QUORUM_URL`` names such a vhost:

``rabbitmqctl add_vhost quorum --default-queue-type quorum``, then ``QUORUM_URL=amqp://guest:guest@localhost/quorum``.
"""

import os

import pytest

from stage.waiting import wait_until
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

URL = os.environ.get("QUORUM_URL")
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not URL, reason="no RabbitMQ is named by QUORUM_URL")]


def test_workers_consume_quorum_queues() -> None:
    receiver = Receiver()
    assert URL
    with Stage(beats=1, workers=1, BROKER_URL=URL) as stage:
        key = stage.create_tenant()
        body = {
            "name": "each-second",
            "job_type": "webhook",
            "schedule": {"type": "interval", "every_seconds": 1},
            "payload": {"url": receiver.url},
        }
        stage.call("POST", "/jobs", key=key, body=body)
        wait_until(lambda: len(receiver.deliveries) >= 10, timeout=60, what="deliveries")
        assert stage.log_path.read_text().count("does not support global qos") <= 2
    receiver.close()
    firings = [delivery.firing for delivery in receiver.deliveries]
    assert len(set(firings)) == len(firings)
