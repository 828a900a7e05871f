"""The environment of a process, with the settings that each must have."""

import os

import pytest

GOOD = {
    "DATABASE_URL": "postgresql://carillon:secret@db:5432/carillon",
    "REDIS_URL": "redis://redis:6379/0",
    "SECRET_KEY": "k" * 50,
    "ALLOWED_HOSTS": "carillon.example.org, other.example.org",
}


@pytest.fixture
def environ(monkeypatch, tmp_path):
    """The environment with no setting of Carillon's except a data directory."""
    for name in list(os.environ):
        if name.startswith("CARILLON_") or name in {
            *GOOD,
            "DATABASE_DIRECT_URL",
            "DATABASE_REPLICA_URL",
            "BROKER_URL",
            "DEBUG",
            "CSRF_TRUSTED_ORIGINS",
        }:
            monkeypatch.delenv(name)
    monkeypatch.setenv("CARILLON_DATA_DIR", str(tmp_path / "data"))

    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all
