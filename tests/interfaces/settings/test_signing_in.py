"""The environment: the ways in which operators sign in."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project import environment
from tests.interfaces.settings.conftest import GOOD


class TestSigningIn:
    """The identity provider and the second factor."""

    PROVIDER = {
        "CARILLON_OIDC_ISSUER": "https://id.example.org/realms/ours/",
        "CARILLON_OIDC_CLIENT_ID": "carillon",
        "CARILLON_OIDC_CLIENT_SECRET": "hush-hush",
    }

    def test_is_by_password_alone_unless_something_is_set(self, environ):
        environ(**GOOD)
        platform = environment.load()[0]
        assert (platform.oidc(), platform.second_factor, platform.password_sign_in) == (None, "off", True)

    def test_is_by_the_provider_that_is_set(self, environ):
        environ(**GOOD, **self.PROVIDER, CARILLON_OIDC_NAME="Ours")
        assert environment.load()[0].oidc() == (
            "https://id.example.org/realms/ours",
            "carillon",
            "hush-hush",
            "Ours",
        )

    @pytest.mark.parametrize("missing", PROVIDER)
    def test_needs_all_that_belongs_to_the_provider(self, environ, missing):
        environ(**GOOD, **self.PROVIDER | {missing: ""})
        with pytest.raises(ImproperlyConfigured, match=f"{missing}: is required with CARILLON_OIDC_"):
            environment.load()

    @pytest.mark.parametrize(
        "issuer",
        [
            "id.example.org",
            "http://id.example.org",
            "https://",
            "https://id.example.org/?a=b",
            "https://user@id.example.org",
            "https://id.example.org:port",
        ],
    )
    def test_refuses_what_is_no_issuer(self, environ, issuer):
        environ(**GOOD, **self.PROVIDER | {"CARILLON_OIDC_ISSUER": issuer})
        with pytest.raises(ImproperlyConfigured, match="CARILLON_OIDC_ISSUER: must look like https://"):
            environment.load()

    def test_needs_some_way_in(self, environ):
        environ(**GOOD, CARILLON_PASSWORD_SIGN_IN="false")
        with pytest.raises(ImproperlyConfigured, match="CARILLON_PASSWORD_SIGN_IN: can be false only with"):
            environment.load()

    def test_refuses_a_second_factor_that_is_none_of_the_three(self, environ):
        environ(**GOOD, CARILLON_SECOND_FACTOR="maybe")
        with pytest.raises(
            ImproperlyConfigured, match=r"CARILLON_SECOND_FACTOR: .*'off', 'optional' or 'required'"
        ):
            environment.load()
