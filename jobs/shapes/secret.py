"""Secrets, and the secret that webhooks are signed with: written and never shown.

``tenants.vault`` decides which texts may be one, for commands as well; its pattern is told here.
"""

import re
from datetime import datetime
from typing import Annotated

from pydantic import Field

from jobs.shapes.base import Shape, Shown
from jobs.shapes.terms import Between, Text
from tenants.models import SECRET_HOST
from tenants.vault.signing import DEFAULT_OVERLAP, MAX_OVERLAP

#: The pattern of ``tenants.models.SECRET_HOST``.
HOST = re.compile(SECRET_HOST.regex).pattern.replace(r"\Z", "$")
_B64 = "[A-Za-z0-9+/]"
_QUAD = f"({_B64}{{4}})"
_SIGNING = rf"^whsec_({_QUAD}{{8,21}}|{_QUAD}{{8,21}}{_B64}{{2}}==|{_QUAD}{{8,20}}{_B64}{{3}}=)$"


class SecretValue(Shape):
    drops_null = True
    hints = {"value": "Is required: 8 to 4096 printable ASCII characters, without blanks at the ends."}
    value: Annotated[str, Text(4096, 8, pattern=r"^[!-~][ -~]{6,4094}[!-~]$")]
    """8 to 4096 printable ASCII characters, without blanks at the ends. Never shown again."""
    hosts: (
        Annotated[list[Annotated[str, Text(269, pattern=HOST)]], Field(min_length=1, max_length=20)] | None
    ) = None
    """Hosts to which the secret may be sent: `api.example.com`, `api.example.com:8443`, `*.example.com`; `*` is any
    host. Required for a new secret; if left out, an existing secret keeps its hosts."""


class SecretShape(Shown):
    name: str
    version: int
    """Goes up by one with each new value."""
    hosts: list[str]
    """Hosts to which the secret may be sent."""
    created_at: datetime
    updated_at: datetime


class NewSigningSecret(Shape):
    drops_null = True
    hints = {"secret": "Is required: whsec_ and the base64 of 24 to 64 random bytes."}
    secret: Annotated[str, Text(100, pattern=_SIGNING)]
    """`whsec_` and the base64 of 24 to 64 random bytes. Never shown again."""
    overlap_seconds: Annotated[float, Between(0, int(MAX_OVERLAP.total_seconds()))] = (
        DEFAULT_OVERLAP.total_seconds()
    )
    """How long requests also carry the signature of the previous secret; a day by default."""


class SigningSecret(Shown):
    rotating: bool
    """True while requests carry two signatures."""
    retires_at: datetime | None
    """When the older of the two secrets is no longer used."""
