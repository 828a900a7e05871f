"""The environment is checked as a whole at start (12-factor): every bad setting is named at once."""

import base64

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project import environment
from scheduler_project.embedded.stack import EmbeddedStack
from tests.interfaces.settings.conftest import GOOD


class TestWhatIsLeftEmpty:
    """A line of ``.env`` whose value was not filled in."""

    def test_is_as_if_it_were_not_there(self, environ):
        optional = (
            "BROKER_URL",
            "DEBUG",
            "CARILLON_FLOWER_URL",
            "CARILLON_HISTORY_DAYS",
            "CARILLON_HTTPS",
            "CARILLON_LOG_FORMAT",
            "CARILLON_METRICS_TOKEN",
            "CARILLON_WEBHOOK_ALLOW_NETWORKS",
        )
        environ(**GOOD)
        expected = environment.load()
        environ(**dict.fromkeys(optional, ""))
        assert environment.load() == expected

    @pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "SECRET_KEY"])
    def test_is_refused_where_something_else_would_be_used_in_its_place(self, environ, name):
        environ(**GOOD | {name: ""})
        with pytest.raises(ImproperlyConfigured, match=name):
            environment.load()


class TestEnvironment:
    def test_lists_every_bad_setting_at_once_and_what_would_be_right(self, environ):
        environ(
            DATABASE_URL="mysql://db/x",
            REDIS_URL="http://redis",
            SECRET_KEY="short",
            CARILLON_LEADER_LEASE_SECONDS="1000",
            CARILLON_QUEUE_WINDOW_MIN="many",
            CARILLON_WEBHOOK_ALLOW_NETWORKS="10.0.0.0/33",
            CARILLON_LOG_FORMAT="xml",
        )
        with pytest.raises(ImproperlyConfigured) as refusal:
            environment.load()
        message = str(refusal.value)
        for name in (
            "DATABASE_URL: must look like postgresql://",
            "REDIS_URL: must look like redis://",
            "SECRET_KEY: ",
            "CARILLON_LEADER_LEASE_SECONDS: ",
            "CARILLON_QUEUE_WINDOW_MIN: ",
            "CARILLON_WEBHOOK_ALLOW_NETWORKS: ",
            "CARILLON_LOG_FORMAT: ",
        ):
            assert name in message

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("QUEUE_WINDOW_MAX", "0", "must be from 1 to 1,000,000 (got '0')"),
            ("LEADER_LEASE_SECONDS", "1000", "must be from 2 to 60 (got '1000')"),
            ("WEBHOOK_CONNECT_TIMEOUT_SECONDS", "0", "must be over 0 and at most 60 (got '0')"),
        ],
    )
    def test_says_between_what_a_number_must_lie(self, environ, name, value, words):
        environ(**{f"CARILLON_{name}": value})
        with pytest.raises(ImproperlyConfigured) as refusal:
            environment.load()
        assert f"CARILLON_{name}: {words}" in str(refusal.value)

    def test_refuses_a_data_directory_that_is_a_file(self, environ, tmp_path):
        (tmp_path / "file").touch()
        environ(CARILLON_DATA_DIR=str(tmp_path / "file"))
        with pytest.raises(ImproperlyConfigured, match="CARILLON_DATA_DIR: must be a directory"):
            environment.load()

    def test_seals_with_the_given_keys_and_goes_on_opening_with_the_derived_one(self, environ):
        environ(**GOOD)
        [derived] = environment.load()[0].sealing_keys()
        one, two = base64.b64encode(b"1" * 32).decode(), "32" * 32
        environ(CARILLON_ENCRYPTION_KEYS=f"{one}, {two}")
        assert environment.load()[0].sealing_keys() == (b"1" * 32, b"2" * 32, derived)
        assert len(derived) == 32

    @pytest.mark.parametrize("keys", ["short", "x" * 64, base64.b64encode(b"1" * 16).decode(), "a,b"])
    def test_refuses_keys_of_another_length_without_an_echo(self, environ, keys):
        environ(**GOOD, CARILLON_ENCRYPTION_KEYS=keys)
        with pytest.raises(
            ImproperlyConfigured, match="CARILLON_ENCRYPTION_KEYS: each must be 32 bytes"
        ) as refusal:
            environment.load()
        assert "got" not in str(refusal.value)

    def test_never_echoes_a_secret(self, environ):
        environ(DATABASE_URL="mysql://user:hunter2@db/x", SECRET_KEY="hunter2")
        with pytest.raises(ImproperlyConfigured) as refusal:
            environment.load()
        assert "hunter2" not in str(refusal.value)

    def test_takes_a_complete_production_environment(self, environ):
        environ(**GOOD)
        platform, engine = environment.load()
        assert platform.database()["HOST"] == "db"
        assert platform.database()["OPTIONS"]["connect_timeout"] == 5
        assert platform.broker() == "redis://redis:6379/0"
        assert platform.hosts() == ["carillon.example.org", "other.example.org"]
        assert engine.leader_election

    @pytest.mark.parametrize("missing", ["SECRET_KEY", "ALLOWED_HOSTS"])
    def test_has_no_built_in_secrets_or_hosts_outside_the_embedded_mode(self, environ, missing):
        environ(**{name: value for name, value in GOOD.items() if name != missing})
        with pytest.raises(ImproperlyConfigured, match=f"{missing}: is required"):
            environment.load()

    def test_makes_and_keeps_a_secret_key_in_the_embedded_mode(self, environ, tmp_path):
        platform, _ = environment.load()
        key = platform.key()
        assert len(key) >= 32
        assert environment.load()[0].key() == key
        assert platform.hosts() == list(environment.LOOPBACK_HOSTS)
        assert platform.broker().startswith("redis+socket://")

    def test_prefers_a_broker_of_its_own(self, environ):
        environ(**GOOD, BROKER_URL="amqp://user:password@rabbit:5672//")
        platform = environment.load()[0]
        assert platform.broker() == "amqp://user:password@rabbit:5672//"
        assert platform.redis() == GOOD["REDIS_URL"]

    @pytest.mark.parametrize("scheme", ["amqp", "amqps", "pyamqp"])
    def test_rabbitmq_needs_no_redis_beside_it(self, environ, scheme):
        environ(**{name: value for name, value in GOOD.items() if name != "REDIS_URL"})
        assert environment.load()[0].redis().startswith("unix://")
        environ(BROKER_URL=f"{scheme}://rabbit//")
        assert environment.load()[0].redis() == ""
        assert [
            server.name for server in EmbeddedStack(data_dir=environment.load()[0].data_dir).servers
        ] == []

    def test_refuses_windows_out_of_order(self, environ):
        environ(CARILLON_QUEUE_WINDOW_MIN="500", CARILLON_QUEUE_WINDOW_INITIAL="100")
        with pytest.raises(ImproperlyConfigured, match="must be in this order"):
            environment.load()

    def test_reads_rates_of_hosts(self, environ):
        environ(CARILLON_TARGET_RATES="API.example.com=5, slow.example.com:8443=0.5")
        assert environment.load()[1].target_rates == {"api.example.com": 5, "slow.example.com:8443": 0.5}

    @pytest.mark.parametrize(
        "url", ["", "file:///var/carillon/archive", "s3://bucket", "s3://a-bucket.eu/a/b"]
    )
    def test_takes_places_for_archives(self, environ, url):
        environ(CARILLON_ARCHIVE_URL=url)
        assert environment.load()[1].archive_url == url

    @pytest.mark.parametrize(
        "url",
        [
            "/var/archive",
            "file://archive",
            "file:///",
            "s3:///prefix",
            "s3://Bucket!",
            "s3://b",
            "gs://bucket",
            "s3://bucket?acl=x",
        ],
    )
    def test_refuses_what_is_no_place_for_archives(self, environ, url):
        environ(CARILLON_ARCHIVE_URL=url)
        with pytest.raises(ImproperlyConfigured, match=r"CARILLON_ARCHIVE_URL: .*s3://bucket/prefix"):
            environment.load()

    def test_refuses_a_bucket_without_what_speaks_to_it(self, environ, monkeypatch):
        monkeypatch.setattr(environment, "find_spec", lambda _: None)
        environ(CARILLON_ARCHIVE_URL="s3://bucket")
        with pytest.raises(ImproperlyConfigured, match=r"requirements/archive\.txt"):
            environment.load()

    @pytest.mark.parametrize(
        "text", ["example.com", "=5", "example.com=", "a=1, b", "a=fast", "a=0", "a=1e9"]
    )
    def test_refuses_rates_that_are_none(self, environ, text):
        environ(CARILLON_TARGET_RATES=text)
        with pytest.raises(ImproperlyConfigured, match="CARILLON_TARGET_RATES"):
            environment.load()

    def test_reads_lists_separated_by_commas(self, environ):
        environ(CARILLON_HANDLER_MODULES="a.b, c", CARILLON_WEBHOOK_ALLOW_NETWORKS="10.0.0.0/8,::1/128")
        _, engine = environment.load()
        assert engine.handler_modules == ("a.b", "c")
        assert [str(network) for network in engine.webhook_allow_networks] == ["10.0.0.0/8", "::1/128"]


class TestAPooler:
    DIRECT = "postgresql://carillon:secret@postgres:5432/carillon"

    def test_is_for_web_and_workers_alone(self, environ):
        environ(**GOOD, CARILLON_POOLER="transaction", DATABASE_DIRECT_URL=self.DIRECT)
        platform, _ = environment.load()
        direct, pooled = platform.database(), platform.pooled_database()
        assert (direct["HOST"], pooled["HOST"]) == ("postgres", "db")
        assert "DISABLE_SERVER_SIDE_CURSORS" not in direct
        assert pooled["DISABLE_SERVER_SIDE_CURSORS"] is True

    def test_is_not_there_unless_it_is_named(self, environ):
        environ(**GOOD)
        platform, _ = environment.load()
        assert (platform.database()["HOST"], platform.pooled_database()) == ("db", None)

    @pytest.mark.parametrize(
        ("given", "wrong"),
        [
            ({"CARILLON_POOLER": "session"}, "DATABASE_DIRECT_URL: is required with CARILLON_POOLER"),
            ({"CARILLON_POOLER": "statement"}, "CARILLON_POOLER: "),
            ({"DATABASE_DIRECT_URL": DIRECT}, "CARILLON_POOLER: must be session or transaction"),
            (
                {"CARILLON_POOLER": "session", "DATABASE_DIRECT_URL": "mysql://x/y"},
                "DATABASE_DIRECT_URL: must look",
            ),
        ],
    )
    def test_is_refused_unless_the_settings_fit(self, environ, given, wrong):
        environ(**GOOD | given)
        with pytest.raises(ImproperlyConfigured, match=wrong):
            environment.load()


class TestAReplica:
    URL = "postgresql://carillon:secret@replica:5432/carillon"

    def test_is_not_there_unless_it_is_named(self, environ):
        environ(**GOOD, DATABASE_REPLICA_URL="")
        assert environment.load()[0].replica_database() is None

    def test_is_connected_to_as_the_primary_is(self, environ):
        environ(**GOOD, DATABASE_REPLICA_URL=self.URL)
        platform, engine = environment.load()
        primary, replica = platform.database(), platform.replica_database()
        assert (primary["HOST"], replica["HOST"]) == ("db", "replica")
        assert replica["OPTIONS"] == primary["OPTIONS"] | {"connect_timeout": 2}
        assert replica["DISABLE_SERVER_SIDE_CURSORS"] is False
        assert engine.replica_max_lag_seconds == 10

    def test_has_a_pooler_of_the_same_kind(self, environ):
        environ(
            **GOOD,
            DATABASE_REPLICA_URL=self.URL,
            CARILLON_POOLER="transaction",
            DATABASE_DIRECT_URL=TestAPooler.DIRECT,
        )
        assert environment.load()[0].replica_database()["DISABLE_SERVER_SIDE_CURSORS"] is True

    @pytest.mark.parametrize(
        ("given", "wrong"),
        [
            (
                {"DATABASE_REPLICA_URL": "mysql://x:hunter2@y/z"},
                "DATABASE_REPLICA_URL: must look like postgres",
            ),
            ({"CARILLON_REPLICA_MAX_LAG_SECONDS": "0"}, "must be from 1 to 3,600"),
        ],
    )
    def test_is_refused_without_an_echo(self, environ, given, wrong):
        environ(**GOOD | given)
        with pytest.raises(ImproperlyConfigured, match=wrong) as refusal:
            environment.load()
        assert "hunter2" not in str(refusal.value)
