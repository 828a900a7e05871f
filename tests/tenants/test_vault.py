"""Sealed values: opened where they belong and nowhere else, moved to other keys, replaced without a gap."""

import base64
import os
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.models import Secret, Tenant
from tenants.vault import sealing, secrets, signing
from tenants.vault.rekey import keys_in_use, rekey
from tenants.vault.sealing import Place, Unreadable, key_id_of, seal, unseal
from tests.factories import HOUR, make_tenant, set_clock

pytestmark = pytest.mark.django_db
HERE = Place(1, "tenants_secret", "row", "sealed")
VALUE = "correct horse battery"


@pytest.fixture(autouse=True)
def _keys(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = (b"a" * 32, b"b" * 32)
    sealing.forget()


def use_keys(settings: Any, *keys: bytes) -> None:
    settings.ENCRYPTION_KEYS = keys
    sealing.forget()


class TestSealing:
    def test_opens_in_its_place_and_never_looks_the_same_twice(self) -> None:
        one, two = seal(VALUE, HERE), seal(VALUE, HERE)
        assert (unseal(one, HERE), unseal(two, HERE)) == (VALUE, VALUE)
        assert one != two
        assert VALUE not in one
        assert base64.b64encode(VALUE.encode()).decode()[:12] not in one

    @pytest.mark.parametrize("change", [{"tenant_id": 2}, {"table": "x"}, {"row": "y"}, {"column": "z"}])
    def test_opens_in_no_other_place(self, change: dict[str, Any]) -> None:
        sealed = seal(VALUE, HERE)
        with pytest.raises(Unreadable, match="altered, or moved"):
            unseal(sealed, HERE._replace(**change))

    def test_says_what_is_altered(self) -> None:
        sealed = seal(VALUE, HERE)
        head, _, body = sealed.rpartition(".")
        raw = bytearray(base64.urlsafe_b64decode(body))
        for place in (0, 12, len(raw) - 1):
            flipped = bytearray(raw)
            flipped[place] ^= 1
            with pytest.raises(Unreadable):
                unseal(f"{head}.{base64.urlsafe_b64encode(flipped).decode()}", HERE)

    @pytest.mark.parametrize("text", ["", "whsec_c2VjcmV0", "v1.", "v1.00000000.AAAA", "v2.x.y", "v1..", "."])
    def test_passes_nothing_on_that_is_not_sealed(self, text: str) -> None:
        with pytest.raises(Unreadable):
            unseal(text, HERE)

    def test_seals_under_the_first_key_and_opens_under_all(self, settings: Any) -> None:
        sealed = seal(VALUE, HERE)
        use_keys(settings, b"b" * 32, b"a" * 32)
        assert unseal(sealed, HERE) == VALUE
        assert key_id_of(seal(VALUE, HERE)) != key_id_of(sealed)
        use_keys(settings, b"b" * 32)
        with pytest.raises(Unreadable, match=f"has no key {key_id_of(sealed)}"):
            unseal(sealed, HERE)

    def test_remembers_for_a_while_only(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        time = 0.0
        monkeypatch.setattr(sealing.time, "monotonic", lambda: time)
        sealed = seal(VALUE, HERE)
        unseal(sealed, HERE)
        settings.ENCRYPTION_KEYS = (b"c" * 32,)
        time = sealing.REMEMBERED_SECONDS - 1
        assert unseal(sealed, HERE) == VALUE
        time += 2
        with pytest.raises(Unreadable):
            unseal(sealed, HERE)


class TestSecrets:
    def test_are_stored_sealed_and_replaced(self) -> None:
        tenant = make_tenant()
        first, created = secrets.put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        assert (created, first.version) == (True, 1)
        again, created = secrets.put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        assert (created, again.version, again.sealed) == (False, 1, first.sealed)
        other, created = secrets.put_secret(tenant=tenant, name="token", value="another value", hosts=["*"])
        assert (created, other.version, other.id) == (False, 2, first.id)
        assert VALUE not in other.sealed
        assert secrets.open_secrets({tenant.id: ["token"]}) == {
            (tenant.id, "token"): ("another value", ["*"])
        }

    @pytest.mark.parametrize(
        ("name", "value", "field"),
        [
            ("", VALUE, "name"), ("-x", VALUE, "name"), ("a b", VALUE, "name"), ("a" * 101, VALUE, "name"),
            ("a\n", VALUE, "name"), ("a\0", VALUE, "name"), ("ä", VALUE, "name"), ("a/b", VALUE, "name"),
            ("a", "short", "value"), ("a", "x" * 4097, "value"), ("a", " leading blank", "value"),
            ("a", "line\r\nbreak here", "value"), ("a", "nul\0 in the middle", "value"), ("a", None, "value"),
            ("a", 12345678, "value"), ("a", "ünicode here", "value"), ("a", "trailing break\n", "value"),
        ],
    )  # fmt: skip
    def test_are_refused_by_field(self, name: str, value: object, field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            secrets.put_secret(tenant=make_tenant(), name=name, value=value, hosts=["*"])
        assert list(refused.value.message_dict) == [field]
        assert not Secret.objects.exists()

    def test_of_several_tenants_are_opened_by_one_look_up_and_kept_apart(self) -> None:
        one, two = make_tenant(), make_tenant()
        for tenant, value in ((one, "value of one"), (two, "value of two")):
            secrets.put_secret(tenant=tenant, name="token", value=value, hosts=["*"])
        secrets.put_secret(tenant=two, name="other", value="never asked for", hosts=["*"])
        with CaptureQueriesContext(
            connection,
        ) as queries:
            found = secrets.open_secrets({one.id: ["token", "gone"], two.id: ["token"]})
        assert len(queries) == 1
        assert found == {
            (one.id, "token"): ("value of one", ["*"]),
            (two.id, "token"): ("value of two", ["*"]),
        }

    def test_moved_to_another_tenants_row_do_not_open(self) -> None:
        mine, other = make_tenant(), make_tenant()
        theirs, _ = secrets.put_secret(tenant=other, name="token", value=VALUE, hosts=["*"])
        own, _ = secrets.put_secret(tenant=mine, name="token", value="my own value", hosts=["*"])
        Secret.objects.filter(id=own.id).update(sealed=theirs.sealed)
        assert secrets.open_secrets({mine.id: ["token"]}) == {(mine.id, "token"): (None, ["*"])}

    def test_are_bounded_in_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(secrets, "MAX_SECRETS", 1)
        tenant = make_tenant()
        secrets.put_secret(tenant=tenant, name="one", value=VALUE, hosts=["*"])
        secrets.put_secret(tenant=tenant, name="one", value="replaced value", hosts=["*"])
        with pytest.raises(ValidationError):
            secrets.put_secret(tenant=tenant, name="two", value=VALUE, hosts=["*"])


def present(tenant: Tenant) -> list[str]:
    tenant.refresh_from_db()
    return signing.open_signing_secrets(tenant.id, tenant.webhook_secret).split()


class TestSigning:
    def test_is_by_both_secrets_until_the_overlap_is_over(self, clock: Any) -> None:
        tenant = make_tenant()
        first = signing.rotate_signing_secret(tenant=tenant)
        second = signing.rotate_signing_secret(tenant=tenant, overlap=HOUR)
        assert present(tenant) == [second, first]
        set_clock(HOUR - timedelta(seconds=5))
        assert signing.retire_signing_secrets() == 0
        set_clock(HOUR + timedelta(seconds=5))
        assert signing.retire_signing_secrets() == 1
        assert (present(tenant), tenant.webhook_secret_retires_at) == ([second], None)
        assert signing.retire_signing_secrets() == 0

    def test_by_the_same_secret_again_changes_nothing(self) -> None:
        tenant = make_tenant()
        first = signing.rotate_signing_secret(tenant=tenant)
        second = signing.new_signing_secret()
        for _ in range(3):
            signing.rotate_signing_secret(tenant=tenant, secret=second)
        assert present(tenant) == [second, first]

    def test_never_goes_by_more_than_two(self) -> None:
        tenant = make_tenant()
        made = [signing.rotate_signing_secret(tenant=tenant) for _ in range(3)]
        assert present(tenant) == [made[2], made[1]]
        last = signing.rotate_signing_secret(tenant=tenant, overlap=timedelta())
        assert present(tenant) == [last]

    @pytest.mark.parametrize(
        "secret",
        ["", "x", "whsec_", "whsec_!!!", "whsec_" + "QUJD" * 5, "whsec_" + "QUJD" * 30, 5, "whsk_QUJD"],
    )
    def test_refuses_secrets_outside_the_standard(self, secret: object) -> None:
        with pytest.raises(ValidationError) as refused:
            signing.rotate_signing_secret(tenant=make_tenant(), secret=secret)
        assert list(refused.value.message_dict) == ["secret"]

    def test_is_rotated_by_a_command_that_shows_the_secret_once(self) -> None:
        tenant, output = make_tenant(), StringIO()
        call_command("rotate_signing_secret", tenant.slug, stdout=output)
        [secret] = present(tenant)
        assert secret in output.getvalue()
        for arguments in (
            ["nobody"],
            [tenant.slug, "--overlap-seconds=-1"],
            [tenant.slug, "--overlap-seconds=nan"],
        ):
            with pytest.raises(CommandError):
                call_command("rotate_signing_secret", *arguments)


class TestRekey:
    @pytest.fixture
    def kept(self) -> dict[int, str]:
        """Three tenants with two secrets each, and the values of these."""
        values = {}
        for number in range(3):
            tenant = make_tenant()
            signing.rotate_signing_secret(tenant=tenant)
            signing.rotate_signing_secret(tenant=tenant)
            for name in ("one", "two"):
                secrets.put_secret(tenant=tenant, name=name, value=f"value {name} {number}", hosts=["*"])
                values[tenant.id, name] = f"value {name} {number}"
        return values

    def opened(self, kept: dict[Any, str]) -> dict[Any, Any]:
        found = secrets.open_secrets({tenant_id: ["one", "two"] for tenant_id, _ in kept})
        return {key: opened.value for key, opened in found.items()}

    def test_moves_everything_to_the_first_key(self, settings: Any, kept: dict[Any, str]) -> None:
        signed = {tenant.id: present(tenant) for tenant in Tenant.objects.all()}
        use_keys(settings, b"c" * 32, b"a" * 32)
        output = StringIO()
        call_command("rekey", "--slice=2", stdout=output)
        assert "sealed again" in output.getvalue()
        use_keys(settings, b"c" * 32)
        assert self.opened(kept) == kept
        assert {tenant.id: present(tenant) for tenant in Tenant.objects.all()} == signed
        assert len(keys_in_use()) == 1

    def test_goes_on_where_it_was_broken_off(self, settings: Any, kept: dict[Any, str]) -> None:
        use_keys(settings, b"c" * 32, b"a" * 32)
        steps = rekey(slice_rows=2)
        assert next(steps).sealed == 2
        assert next(steps).sealed == 4
        steps.close()
        assert self.opened(kept) == kept
        assert [step.sealed for step in rekey(slice_rows=100)] == [2, 3, 0]
        assert [step.sealed for step in rekey(slice_rows=100)] == [0, 0, 0]

    def test_leaves_alone_and_names_what_no_key_opens(self, settings: Any, kept: dict[Any, str]) -> None:
        lost = Secret.objects.order_by("pk")[1]
        Secret.objects.filter(pk=lost.pk).update(
            sealed="v1.00000000." + base64.b64encode(os.urandom(40)).decode()
        )
        use_keys(settings, b"c" * 32, b"a" * 32)
        with pytest.raises(CommandError, match=str(lost.pk)):
            call_command("rekey", stdout=StringIO())
        assert [step.sealed for step in rekey(slice_rows=100)] == [0, 0, 0]
