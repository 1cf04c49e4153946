# SPDX-License-Identifier: Apache-2.0
"""An OpenID Connect provider on the loopback, made of Authlib's server: the authorization code flow
with PKCE and the device flow, for public clients. Whoever /authorize or /approve names is taken to
have typed the password. Keys and people are the test's to change."""

import logging
import threading
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.jose import JsonWebKey, jwt
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import (
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialDict,
)
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, request
from werkzeug.serving import make_server

CLIENT = "farcall-pool"
logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line for each request


class Client(ClientMixin):
    """The pool's: public, and comes back to whatever port of the loopback."""

    def get_client_id(self):
        return CLIENT

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri.startswith("http://127.0.0.1:")

    def check_client_secret(self, client_secret):
        return False

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "none"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return True


class Code(dict):
    """An authorization code, as Authlib asks for one."""

    def get_redirect_uri(self):
        return self["redirect_uri"]

    def get_scope(self):
        return "openid"

    def get_nonce(self):
        return None

    def get_auth_time(self):
        return int(time.time())

    def __getattr__(self, name):
        return self.get(name)


class Provider:
    def __init__(self):
        self.people = {}  # name -> claims
        self.codes, self.devices, self.approved = {}, {}, {}
        self.asked_for_keys = 0
        self.new_key("RS256")
        app = Flask("provider")
        self.server = make_server("127.0.0.1", 0, app, threaded=True)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.add_routes(app)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def new_key(self, algorithm):
        """From now on the only one: the ones before are no more in the key set."""
        kind, size = ("RSA", 2048) if algorithm == "RS256" else ("EC", "P-256")
        options = {"kid": f"key-{time.monotonic_ns()}", "use": "sig", "alg": algorithm}
        self.algorithm = algorithm
        self.key = JsonWebKey.generate_key(kind, size, options, is_private=True)

    def public_keys(self):
        return {"keys": [self.key.as_dict(is_private=False)]}

    def claims(self, name, **more):
        now = int(time.time())
        person = self.people[name]
        return {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": person.get("sub", "sub-" + name),
            "iat": now,
            "exp": now + 300,
            "preferred_username": name,
            "groups": person.get("groups", []),
            **more,
        }

    def sign(self, claims, key=None, **header):
        key = key or self.key
        header = {"alg": self.algorithm, "kid": key.as_dict()["kid"], **header}
        return jwt.encode(header, claims, key).decode()

    def id_token(self, name, **more):
        return self.sign(self.claims(name, **more))

    def add_grants(self, app):
        """The server that answers for the grants which farcall asks for."""
        provider = self
        server = AuthorizationServer(
            app,
            query_client=lambda client_id: Client() if client_id == CLIENT else None,
            save_token=lambda token, request: None,
        )

        class CodeGrant(AuthorizationCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

            def save_authorization_code(self, code, request):
                provider.codes[code] = Code(
                    user=request.user,
                    redirect_uri=request.payload.redirect_uri,
                    code_challenge=request.payload.data.get("code_challenge"),
                    code_challenge_method=request.payload.data.get("code_challenge_method"),
                )

            def query_authorization_code(self, code, client):
                return provider.codes.get(code)

            def delete_authorization_code(self, authorization_code):
                provider.codes = {
                    code: one
                    for code, one in provider.codes.items()
                    if one is not authorization_code
                }

            def authenticate_user(self, authorization_code):
                return authorization_code["user"]

        class OpenId(OpenIDCode):
            def exists_nonce(self, nonce, request):
                return False

            def process_token(self, grant, response):
                response[1]["id_token"] = provider.id_token(grant.request.user)

            def __call__(self, grant):
                grant.register_hook(
                    "after_create_token_response",
                    lambda grant, response: self.process_token(grant, response),
                )

        class Devices(DeviceAuthorizationEndpoint):
            CLIENT_AUTH_METHODS = ["none"]
            INTERVAL = 1

            def get_verification_uri(self):
                return provider.issuer + "/device"

            def save_device_credential(self, client_id, scope, data):
                provider.devices[data["device_code"]] = DeviceCredentialDict(
                    client_id=client_id, scope=scope, expires_at=time.time() + 600, **data
                )

        class DeviceGrant(DeviceCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

            def query_device_credential(self, device_code):
                return provider.devices.get(device_code)

            def query_user_grant(self, user_code):
                return provider.approved.get(user_code)

            def should_slow_down(self, credential):
                return False

            def create_token_response(self):
                status, body, headers = super().create_token_response()
                return status, {**body, "id_token": provider.id_token(self.request.user)}, headers

        server.register_grant(CodeGrant, [CodeChallenge(required=True), OpenId()])
        server.register_grant(DeviceGrant)
        server.register_endpoint(Devices)
        return server

    def add_routes(self, app):
        provider = self
        server = self.add_grants(app)

        @app.get("/.well-known/openid-configuration")
        def configuration():
            return {
                "issuer": provider.issuer,
                "jwks_uri": provider.issuer + "/keys",
                "authorization_endpoint": provider.issuer + "/authorize",
                "token_endpoint": provider.issuer + "/token",
                "device_authorization_endpoint": provider.issuer + "/device_authorization",
            }

        @app.get("/keys")
        def keys():
            provider.asked_for_keys += 1
            return provider.public_keys()

        @app.get("/authorize")
        def authorize():
            return server.create_authorization_response(
                grant_user=request.headers.get("X-Person", "alice")
            )

        @app.post("/token")
        def token():
            return server.create_token_response()

        @app.post("/device_authorization")
        def device_authorization():
            return server.create_endpoint_response(DeviceAuthorizationEndpoint.ENDPOINT_NAME)

        @app.post("/device")
        def device():
            provider.approved[request.form["user_code"]] = (
                request.form["person"],
                request.form.get("deny") != "1",
            )
            return {}
