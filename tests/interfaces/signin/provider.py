"""A small OpenID Connect provider over HTTP: discovery, keys, the authorization page and the token's exchange."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "carillon", "a-secret-of-the-provider-and-us"


@cache
def _key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})


class Provider(ThreadingHTTPServer):
    """``person``: the claims of the person who is signed in there. ``bent``: claims that replace those in tokens."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.key = _key()
        self.signs_with, self.header = self.key, {"alg": "RS256", "kid": "one"}
        self.person: dict[str, Any] = {"sub": "subject-1"}
        self.bent: dict[str, Any] = {}
        self.calls_itself = self.issuer
        self.codes: dict[str, dict[str, str]] = {}
        self.is_away = False
        #: How the provider wants to get the client's secret.
        self.ways = ["client_secret_basic"]

    def token(self, asked: dict[str, str]) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "nonce": asked["nonce"],
            **self.person, **self.bent,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = jwt.encode(self.header, claims, self.signs_with, algorithms=["RS256", "HS256", "none"])
        return {"access_token": secrets.token_hex(8), "token_type": "Bearer", "id_token": signed}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        page, query = urlsplit(self.path).path, urlsplit(self.path).query
        if self.server.is_away:
            self.send_error(503)
        elif page == "/.well-known/openid-configuration":
            issuer = self.server.issuer
            self.answer(
                {
                    "issuer": self.server.calls_itself,
                    "authorization_endpoint": f"{issuer}/authorize",
                    "token_endpoint": f"{issuer}/token",
                    "jwks_uri": f"{issuer}/keys",
                    "token_endpoint_auth_methods_supported": self.server.ways,
                    "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
                }
            )
        elif page == "/keys":
            self.answer({"keys": [self.server.key.as_dict(private=False)]})
        elif page == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(query).items()}
            assert asked["response_type"] == "code"
            assert asked["code_challenge_method"] == "S256"
            code = secrets.token_hex(8)
            self.server.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?{back}")
            self.end_headers()

    def do_POST(self) -> None:
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = self.server.codes.pop(sent["code"][0], None)
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.server.ways == ["client_secret_basic"]:
            is_ours = self.headers["Authorization"] == f"Basic {basic}"
        else:
            is_ours = (sent["client_id"], sent["client_secret"]) == ([CLIENT_ID], [CLIENT_SECRET])
        digest = hashlib.sha256(sent["code_verifier"][0].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or not is_ours
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != sent["redirect_uri"][0]
        ):
            self.answer({"error": "invalid_grant"}, status=400)
        else:
            self.answer(self.server.token(asked))

    def answer(self, body: dict[str, Any], *, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
