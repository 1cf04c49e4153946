# SPDX-License-Identifier: Apache-2.0
"""A client of a Farcall pool's REST interface, generated from its OpenAPI document.

    from farcall_pool import Pool

    pool = Pool("https://pool.example:7719", token=..., ca="ca.pem")
    claim = pool.claims.request(memory_bytes=8 << 30, wait_ms=60000)
    pool.claims.release(id=claim["id"])

Each verb is a method: `pool.claims.explain(id=...)`, `pool.projects.set(name=..., weight=2)`. Its
arguments are the fields of the request, as `help(pool.claims.request)` lists them. An answer is a
dictionary, with 64-bit numbers as int.
"""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request

from _farcall_pool_api import OPERATIONS, SCHEMAS, VERSION

__version__ = VERSION
__all__ = ["Pool", "PoolError"]


class PoolError(Exception):
    """What the pool refused: `status` of HTTP, then `code`, `message`, `field` and `hint`."""

    def __init__(self, status, error):
        self.status = status
        for name in ("code", "message", "field", "hint"):
            setattr(self, name, error.get(name, ""))
        super().__init__(self.message + (f" ({self.hint})" if self.hint else ""))


class Pool:
    """The pool at `url`. It keeps no connection, and any thread may use it.

    `token`: of a user; on the loopback none may be needed. `ca`: the file of the authority that
    signed the pool's certificate. `own`: (certificate, key) of a pool that asks for them.
    """

    def __init__(self, url, token=None, ca=None, own=None, timeout_s=90):
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._tls = None
        if self._url.startswith("https://"):
            self._tls = ssl.create_default_context(cafile=ca)
            if own:
                self._tls.load_cert_chain(*own)
        groups = {}
        for name, operation in OPERATIONS.items():
            group, _, verb = name.rpartition(".")
            method = _method(self, name, operation)
            if group:
                groups.setdefault(group, {})[verb] = method
            else:
                setattr(self, name, method)
        for group, methods in groups.items():
            setattr(self, group, type(group, (), {k: staticmethod(v) for k, v in methods.items()}))

    def watch(self, what="claims", name="", after=0):
        """(kind, object) of what there is, then of each change: of `claims`, `hosts` or `events`."""
        query = urllib.parse.urlencode({"watch": 1, "name": name, "after": after})
        schema = {"claims": "Claim", "hosts": "Host", "events": "Event"}[what]
        with self._open("GET", f"/v1/{what}?{query}", None, {}) as answer:
            kind = "event"
            for line in answer:
                word, _, rest = line.decode().rstrip("\n").partition(": ")
                if word == "event":
                    kind = rest
                elif word == "data":
                    yield kind, _numbers(json.loads(rest), schema)

    def _open(self, method, path, body, headers):
        headers = {"Content-Type": "application/json", **headers}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                told = json.loads(text)
            except ValueError:
                told = {"message": text.decode(errors="replace")}
            raise PoolError(error.code, told) from None


def _method(pool, name, operation):
    verb, path, parameter, takes, gives = operation
    known = set(SCHEMAS[takes]) if takes else set()

    def call(idempotency_key="", if_match="", **fields):
        at = path
        if parameter:
            given = fields.pop("name" if "name" in fields else "id", None)
            if given is None:
                raise TypeError(f"{name}() needs the id or name of what it is about")
            at = path.replace("{" + parameter + "}", urllib.parse.quote(str(given)))
        unknown = set(fields) - known
        if unknown and takes:
            raise TypeError(f"{name}() takes no {', '.join(sorted(unknown))}")
        headers = {}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        if if_match:
            headers["If-Match"] = f'"{if_match}"'
        body = fields if verb in ("POST", "PATCH", "PUT") else None
        if body is None and fields:
            at += "?" + urllib.parse.urlencode(fields)
        with pool._open(verb, at, body, headers) as answer:
            return _numbers(json.loads(answer.read()), gives)

    call.__name__ = name.rpartition(".")[2]
    call.__doc__ = f"{verb} {path}: a {gives}. Fields: {', '.join(sorted(known)) or 'none'}."
    return call


def _numbers(value, schema):
    """The same, with 64-bit numbers, which JSON has as text, as int."""
    for name, kind in SCHEMAS.get(schema, {}).items():
        if name not in value:
            continue
        if kind == "int64":
            value[name] = int(value[name])
        elif kind == "[int64]":
            value[name] = [int(one) for one in value[name]]
        elif kind.startswith("["):
            value[name] = [_numbers(one, kind[1:-1]) for one in value[name]]
        elif kind in SCHEMAS and isinstance(value[name], dict):
            value[name] = _numbers(value[name], kind)
    return value
