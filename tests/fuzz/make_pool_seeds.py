#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_rest, fuzz_pool_messages, fuzz_lease, fuzz_config and fuzz_answers, made by hand.

    make_pool_seeds.py tests/fuzz/corpus        writes corpus/rest/..., corpus/pool_messages/... and so on

The head of each target says what its input is. Names say what a seed is for; those of faults that were found stay.
"""
import gzip
import json
import pathlib
import struct
import sys

A, B, OPERATOR = "token-of-tenant-a", "token-of-tenant-b", "token-of-operator"
# Claims in the order in which the target makes them: a's (held), b's (held), b's (waits), a's (waits).
HELD_A, HELD_B, WAITS_B, WAITS_A = ("c-%016d" % number for number in (1, 2, 3, 4))
GANG_OF_A = "g-%016d" % 5  # by its first member
GIB = 1 << 30


def http(method, path, body=None, token=A, **headers):
    text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: pool"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"Content-Length: {len(text)}"] if body is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + text


def rest():
    full = {"count": 1, "memory_bytes": str(GIB), "share_milli": 100, "limit_milli": 500, "class": "high", "model": "GPU", "host": "gpu1",
            "placer": "spread", "max_sessions": 2, "queue_ms": "1000", "lifetime_ms": "60000", "on_disconnect_ms": "1000", "hold_ms": "1000",
            "owner": "a", "wait_ms": "1000", "net_bytes_per_s": "1000000"}
    verbs = {
        "request": http("POST", "/v1/claims", full, Idempotency_Key="k"),
        "request-twice": http("POST", "/v1/claims", {"memory_bytes": "1"}, Idempotency_Key="k") * 2,
        "request-whole": http("POST", "/v1/claims", {}) + http("POST", "/v1/claims", {"count": 2}),
        "request-by-query": http("POST", "/v1/claims?memory_bytes=1073741824&class=low&wait_ms=1"),
        "alternatives": http("POST", "/v1/claims", {"memory_bytes": str(64 * GIB), "alternatives": [{"memory_bytes": "1", "model": "GPU"}, {"count": 2}], "placer": "fgd"}),
        "groups": http("PUT", "/v1/groups/g", {"hosts": ["gpu2"], "projects": ["default"], "sequencer": "drf", "max_claims": 1}, token=OPERATOR)
        + http("POST", "/v1/claims", {"memory_bytes": "1", "group": "g"}) + http("GET", "/v1/queue?group=g") + http("GET", "/v1/groups") + http("DELETE", "/v1/groups/g", token=OPERATOR),
        "list": http("GET", "/v1/claims") + http("GET", "/v1/claims?limit=1&state=bound") + http("GET", f"/v1/claims?page_token={HELD_A}"),
        "plan": http("POST", "/v1/claims:plan", full) + http("POST", "/v1/claims:plan", {"count": 4294967295, "share_milli": 4294967295}),
        "get": http("GET", f"/v1/claims/{HELD_A}") + http("GET", f"/v1/claims/{HELD_B}") + http("GET", "/v1/claims/none"),
        "patch": http("PATCH", f"/v1/claims/{HELD_A}", {"memory_bytes": str(2 * GIB), "wait_ms": "0"}) + http("PATCH", f"/v1/claims/{WAITS_A}", {"share_milli": 1}),
        "patch-revision": http("PATCH", f"/v1/claims/{HELD_A}", {"share_milli": 5}, If_Match='"1"'),
        "patch-too-much": http("PATCH", f"/v1/claims/{HELD_A}", {"memory_bytes": "18446744073709551615"}),
        "delete": http("DELETE", f"/v1/claims/{HELD_A}") + http("DELETE", f"/v1/claims/{HELD_B}") + http("DELETE", f"/v1/claims/{WAITS_A}"),
        "renew-explain-connect": b"".join(http("POST", f"/v1/claims/{claim}:{verb}") for verb in ("renew", "explain", "connect") for claim in (HELD_A, HELD_B, WAITS_A)),
        "lists-of-hosts": b"".join(http("GET", path) for path in ("/v1/hosts", "/v1/gpus", "/v1/sessions", "/v1/pool", "/v1/events", "/v1/events?after=1")),
        "watch": http("GET", "/v1/claims?watch=1"),
        "watch-hosts": http("GET", "/v1/hosts?watch=1&name=gpu1&after=3"),
        "watch-events": http("GET", "/v1/events?watch=1", Last_Event_ID="2"),
        "operator": b"".join(http("POST", f"/v1/hosts/gpu1:{verb}", token=OPERATOR) for verb in ("drain", "cordon", "uncordon")) + http("GET", "/v1/sessions", token=OPERATOR),
        "hosts-by-a-tenant": b"".join(http("POST", f"/v1/hosts/gpu1:{verb}") for verb in ("drain", "cordon", "uncordon")),
        "join": http("POST", "/v1/join-tokens", {"host": "gpu3", "expires_s": "60"}, token=OPERATOR) + http("POST", "/v1/join", {"host": "gpu3", "token": "none"}, token=None),
        "probes": b"".join(http("GET", path, token=None) for path in ("/healthz", "/readyz")) + http("GET", "/metrics") + http("GET", "/openapi.json"),
        "without-a-token": http("GET", "/v1/claims", token=None) + http("GET", "/v1/claims", token="wrong"),
        "of-b": http("GET", f"/v1/claims/{HELD_B}", token=B) + http("PATCH", f"/v1/claims/{HELD_B}", {"memory_bytes": "1"}, token=B),
    }
    shapes = {
        "head": http("HEAD", "/v1/claims") + http("OPTIONS", "/v1/claims") + http("PUT", "/v1/claims", {}) + http("TRACE", "/"),
        "no-route": http("GET", "/v1/none") + http("GET", "/"),
        "no-http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "half": b"POST /v1/claims HTTP/1.1\r\nContent-Length: 5\r\n\r\n{}",
        "http-1.0": b"GET /v1/pool HTTP/1.0\r\n\r\n",
        "expects": http("POST", "/v1/claims", {}, Expect="100-continue"),
        "two-lengths": b"POST /v1/claims HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "chunked": http("POST", "/v1/claims", token=A, Transfer_Encoding="chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        "bare-newlines": b"POST /v1/claims HTTP/1.1\nContent-Length: 2\r\nX: y\nContent-Length: 9\r\n\r\n{}",
        "form": http("POST", "/v1/claims", b"memory_bytes=1&class=low", Content_Type="application/x-www-form-urlencoded"),
        "multipart": http("POST", "/v1/claims", b'--b\r\nContent-Disposition: form-data; name="class"\r\n\r\nlow\r\n--b--\r\n',
                          Content_Type="multipart/form-data; boundary=b"),
        "compressed-answer": http("GET", "/openapi.json", Accept_Encoding="gzip, br"),
        "percent": http("GET", "/v1/claims/%2e%2e%2f%00?state=%ff%fe&limit=%31"),
        "json-deep": http("POST", "/v1/claims", b"[" * 3000),
        "json-unknown": http("POST", "/v1/claims", {"memory": 1, "count": "x", "class": 7}),
        "json-numbers": http("POST", "/v1/claims", b'{"memory_bytes":1e300,"queue_ms":-9223372036854775808,"count":-1,"hold_ms":NaN}'),
        "json-surrogate": http("POST", "/v1/claims", b'{"owner":"\\ud800","model":"\\u0000"}'),
    }
    faults = {
        "fault-key-no-utf8": http("POST", "/v1/claims", {"memory_bytes": "1"}, Idempotency_Key="\xff\xfe"),
        "fault-query-no-utf8": http("POST", "/v1/claims?memory_bytes=1&owner=%ff"),
        "fault-body-no-utf8": http("POST", "/v1/claims", b'{"memory_bytes":"1","owner":"\xff"}'),
        "fault-message-cut-in-a-character": http("GET", "/v1/claims?none=" + "%E2%82%AC" * 40),
        "fault-path-no-utf8": http("GET", "/v1/%ff%fe" + "%E2%82%AC" * 60),
        "fault-body-unpacked": http("POST", "/v1/join", gzip.compress(b"{" + b" " * (32 << 20), 9, mtime=0), token=None, Content_Encoding="gzip"),
        "fault-many-ranges": http("GET", "/openapi.json", Range="bytes=" + ",".join(["0-"] * 2000)),
    }
    return verbs | shapes | faults


# ---- protobuf, as far as it is needed: fields of numbers, texts and messages.

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


(REQUEST, GET, LIST, UPDATE, RELEASE, RENEW, EXPLAIN, CONNECT, PLAN, HOSTS, GPUS, STATUS, INFO, NEW_JOIN_TOKEN, JOIN, DRAIN, CORDON, UNCORDON,
 REPORT, CLOSED, SET_QUOTA) = range(21)
GANG, GET_GANG, RELEASE_GANG, PLAN_GANG, GROUPS, GET_GROUP, SET_GROUP, DELETE_GROUP = range(44, 52)
AS_A, AS_NOBODY, AS_B, AS_OPERATOR = range(4)
BEAT = 128


def call(what, body=b"", who=AS_A):
    return struct.pack("<BBH", what, who, len(body)) + body


def name(claim):
    return message((1, claim))


def claim(name="c-1", epoch=1, sessions=0, devices=(0,), memory=GIB, **more):
    fields = {"ending": 4, "refused": 5, "share": 8, "limit": 9, "priority": 10, "seats": 11, "quota": 12,
              "refused_quota": 13, "change_refused": 14, "net": 15, "parked": 16, "park_refused": 17}
    packed = b"".join(varint(device) for device in devices)
    return message((1, name), (2, epoch), (3, sessions), (6, packed), (7, memory), *((fields[key], value) for key, value in more.items()))


def report(beat=1, claims=(), gpus=(8 * GIB,), status=None, incarnation=1, endpoints=("tcp://rogue:7717",), net=0):
    held = [(6, message((2, "GPU"), (3, "uuid"), (4, size))) for size in gpus]
    return message((1, "rogue"), (2, incarnation), (3, beat), *((5, url) for url in endpoints), *held, *((7, one) for one in claims),
                   *([(8, status)] if status is not None else []), (9, net))


def pool_messages():
    most = (1 << 64) - 1
    ask = message((1, 1), (2, GIB), (3, 100), (4, 200), (5, "low"), (9, 3), (10, 1000), (14, "a"), (15, 50), (16, "key"), (17, 1_000_000))
    status = message((1, "1"), (2, "rogue"), (3, "cpu"), (4, most), (6, 7), (8, message((1, 1), (4, most))),
                     (9, message((1, "v"), (2, "o"), (6, message((2, most), (6, most))), (7, message((1, 1), (2, "\x1b[2J"))))))
    big_status = message(*[(9, message((1, "v" * 100), (2, "o" * 100)))] * 250)
    gang = message((1, 2), (2, message((2, 6 * GIB), (7, "rogue"))))
    members = [claim(f"{GANG_OF_A}-{number}", devices=(number,), memory=6 * GIB, sessions=1, parked=1,
                     park_refused="no") for number in (0, 1)]
    small_gang = message((1, 2), (2, message((2, GIB))))
    two_gpus = {"gpus": (8 * GIB, 8 * GIB)}
    adopted = [claim(f"x-{i}", devices=range(64), memory=most, sessions=1) for i in range(40)]
    return {
        "request": call(REQUEST, ask) + call(REQUEST, ask) + call(REQUEST, message((1, 2))) + call(REQUEST, message((1, 65), (3, 1001))),
        "negative-times": call(REQUEST, message((10, -1))) + call(REQUEST, message((11, -(1 << 63)))) + call(REQUEST, message((13, (1 << 63) - 1), (15, -1))),
        "reads": b"".join(call(what, name(which)) for what in (GET, EXPLAIN, CONNECT) for which in (HELD_A, HELD_B, WAITS_B, WAITS_A)),
        "lists": b"".join(call(what, who=who) for what in (LIST, HOSTS, GPUS, STATUS, INFO) for who in range(4)),
        "changes": call(UPDATE, message((1, HELD_A), (3, 2 * GIB), (4, 10), (6, "high"), (9, 0)), AS_A | BEAT) + call(UPDATE, message((1, HELD_A), (3, most), (9, 0))) +
        call(UPDATE, message((1, HELD_B), (3, 1))) + call(UPDATE, message((1, WAITS_A), (3, 0), (8, 1), (10, 100_000))),
        "ends": call(RENEW, name(HELD_A)) + call(RELEASE, name(HELD_A), AS_A | BEAT) + call(RELEASE, name(HELD_B)) + call(RELEASE, name(WAITS_A)),
        "operator": call(DRAIN, name("gpu1"), AS_OPERATOR | BEAT) + call(UNCORDON, name("gpu1"), AS_OPERATOR | BEAT) + call(CORDON, name("gpu2"), AS_OPERATOR) +
        call(RELEASE, name(HELD_B), AS_OPERATOR),
        "not-the-operator": call(DRAIN, name("gpu1")) + call(NEW_JOIN_TOKEN, message((1, 60))) + call(STATUS),
        "join": call(NEW_JOIN_TOKEN, message((1, 60), (2, "gpu3")), AS_OPERATOR) + call(JOIN, message((1, "gpu3"), (2, "none")), AS_NOBODY) +
        call(JOIN, message((1, "no/name"), (2, "")), AS_NOBODY),
        "rogue": call(REPORT, report()) + call(REQUEST, message((2, 5 * GIB), (7, "rogue"))) + call(REPORT, report(beat=2)) + call(CLOSED, struct.pack("<Q", 1)),
        "rogue-shrinks": call(REPORT, report(gpus=(8 * GIB, 8 * GIB))) + call(REQUEST, message((1, 2), (2, GIB), (7, "rogue"))) + call(REPORT, report(beat=2, gpus=())) +
        call(REPORT, report(beat=3, gpus=(1,))) + call(REQUEST, message((2, 1), (7, "rogue"))),
        "rogue-of-others": call(REPORT, report(claims=[claim(HELD_B, sessions=9), claim(HELD_A, epoch=9, refused="no")])) + call(REPORT, report(beat=2, claims=[claim(WAITS_B)])),
        "rogue-status": call(REPORT, report(status=status)) + call(STATUS, who=AS_OPERATOR),
        "rogue-status-large": call(REPORT, report(status=big_status)) + call(STATUS, who=AS_OPERATOR),
        "rogue-endpoints": call(REPORT, report(endpoints=("nothing", "tcp://\x1b[2J"))) + call(REPORT, report(endpoints=["tcp://h:1"] * 9)),
        "rogue-numbers": call(REPORT, report(incarnation=most, beat=most, gpus=(most,) * 64, net=most)) + call(REQUEST, message((2, 1 << 46), (7, "rogue"))),
        "fault-rogue-devices-repeat": call(REPORT, report(claims=[claim("x", devices=[0] * 64, memory=1 << 50)])) + call(REQUEST, message((2, GIB), (7, "rogue"))),
        "fault-rogue-sum-comes-round": b"".join(call(REPORT, report(beat=beat, gpus=(1 << 46,) * 64, claims=adopted)) for beat in (1, 2)) +
        call(REQUEST, message((2, 1 << 46), (7, "rogue"))),
        "fault-rogue-no-name": call(REPORT, report(claims=[claim("")])),
        "fault-rogue-epoch-comes-round": call(REPORT, report(claims=[claim("x", epoch=most, quota=most)])) + call(UPDATE, message((1, "x"), (3, 2), (9, 0)), AS_OPERATOR),
        "fault-error-without-bound": call(RELEASE, name("c" * 20000)) + call(DRAIN, name("h" * 20000), AS_OPERATOR),
        "gangs": call(PLAN_GANG, gang) + call(GANG, small_gang + message((3, 70_000))) +
        call(GANG, small_gang, AS_A | BEAT) + call(GET_GANG, name(GANG_OF_A)) +
        call(RELEASE_GANG, name(GANG_OF_A), AS_A | BEAT) + call(GANG, message((1, 257), (2, ask))),
        "groups": call(SET_GROUP, message((1, "g"), (3, "gpu2")), AS_OPERATOR | BEAT) + call(GROUPS) +
        call(GET_GROUP, name("g")) + call(SET_GROUP, message((1, "g"))) +
        call(DELETE_GROUP, name("g"), AS_OPERATOR | BEAT),
        "fault-rogue-gang-never-granted": call(REPORT, report(**two_gpus)) +
        call(CLOSED, struct.pack("<Q", 1)) + call(GANG, gang) +
        call(REPORT, report(beat=2, claims=members, **two_gpus)) +
        call(REPORT, report(beat=3, claims=members, **two_gpus)),
        "set-quota": call(SET_QUOTA, message((1, "v"), (2, most), (3, 1000))) + call(SET_QUOTA, message((1, "v"), (2, GIB), (4, 1001), (6, most))) +
        call(SET_QUOTA, message((1, "v"), (5, "high"), (6, 1_000_000))) + call(SET_QUOTA, message((1, "v"))),
    }


def lease():
    def choice(wrong=0, id=1, begins=0, ends=60, passed=0):
        return struct.pack("<BBhhh", wrong, id, begins, ends, passed)

    fields = {"pool": "pool", "claim": "c-1", "host": "gpu7", "epoch": 3, "inst": 42, "jti": "j", "nbf": "2027-01-15T08:00:00Z", "exp": "2027-01-15T08:01:00Z"}

    def signed(**changes):
        return b"\x02" + json.dumps({key: value for key, value in (fields | changes).items() if value is not None}).encode()

    return {
        "raw-empty": b"\x00",
        "raw": b"\x00v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIn0" + b"A" * 86,
        "raw-local": b"\x00v4.local.AAAA",
        "changed-nothing": b"\x01\x00\x00\x00",
        "changed-bit": b"\x01\x20\x00\x23",
        "changed-inserted": b"\x01\x0a\x00\x01A",
        "changed-cut": b"\x01\x40\x00\x02" + b"x" * 20,
        "changed-end": b"\x01\xff\xff\x01==",
        "signed": signed(),
        "signed-other-host": signed(host="gpu8"),
        "signed-no-time": signed(exp=None),
        "signed-strange-times": signed(nbf="9999-12-31T23:59:60Z", exp="0000-00-00T00:00:00Z"),
        "signed-numbers": signed(epoch=-1, inst=1e300),
        "signed-no-object": b"\x02[1,2]",
        "signed-deep": b"\x02" + b"[" * 2000,
        "many": b"\x03" + choice() + choice() + choice(id=2) + choice(id=1, passed=30) + choice(id=1, passed=66),
        "many-wrong": b"\x03" + b"".join(choice(wrong=wrong, id=wrong) for wrong in range(16)),
        "many-times": b"\x03" + choice(id=1, begins=5) + choice(id=2, begins=6) + choice(id=3, ends=-5) + choice(id=4, ends=-6) + choice(id=5, begins=-100, ends=-50),
    }


def config():
    verifier = b"farcall-verifier-1 " + b"0" * 64 + b" " + b"1" * 64
    server = ('listen = ["tcp://127.0.0.1:1", "tcp://[::1]:2"]\ndevice = "cpu"\ngpus = "0,1"\nmem = "4GiB"\nhost_mem = 5\nswap_host_mem = "1GB"\nworker_memory = "1G"\n'
              'image_store_max = "0"\ngrace = 5\nmax_sessions = 7\nmax_tenant_sessions = 7\nlanes = 4\nlog_level = "debug"\nmax_share = "50%"\nmax_limit = "0.5"\n'
              'max_priority = "high"\nmax_net = "100MB/s"\nmode = "0=mps,1=slice"\nworker_users = "700000-700255"\nworker_calls = "report"\noverhead = "host"\n'
              'oversubscribe = 1.8\npark_after = 3\ntrust_tenants = true\ndebuggable = false\nplaintext = true\ncontrol = "off"\naudit = "a"\nmetrics = "127.0.0.1:1"\npool = "http://p:1"\n'
              'pool_ca = "c"\npool_name = "n"\nadvertise = "tcp://h:1"\ntoken = "t"\nconfig_version = 1\n'
              'warm_workers = 2\ntenant_mem = "8GiB"\nshm = "auto"\nshm_users = "0,4242"\ntls_cert = "c"\ntls_key = "k"\n'
              'tls_client_ca = "a"\ntls_crl = "r"\npool_cert = "c"\npool_key = "k"\n')
    both = {
        "unquoted": "endpoint = tcp://gpu-host:7717\n", "no-end": 'mem = "4GiB"\nendpoint = "tcp://x\n', "no-value": "endpoint =\n", "no-bracket": "[endpoint\n",
        "twice": 'mem = "1GiB"\nmem = "2GiB"\n', "table": "[mem]\na = 1\n", "list": "mem = [1, 2]\n", "date": "mem = 1979-05-27T07:32:00Z\n",
        "numbers": "mem = 9223372036854775807\noversubscribe = inf\ngrace = -1\n", "deep": "mem = " + "[" * 300, "dotted": "mem.a.b.c = 1\n",
        "escape": 'mem = "\\u001b[2J\\n"\n', "key-escape": '"mem\\n\\u001b" = 1\n', "typo": 'endpiont = "x"\n', "comment": "# nothing\n",
    }
    seeds = {f"{side}-{key}": bytes([byte]) + text.encode() for byte, side in enumerate(("client", "server")) for key, text in both.items()}
    seeds |= {f"{side}-no-utf8": bytes([byte]) + b'mem = "\xff"\n' for byte, side in enumerate(("client", "server"))}
    return seeds | {
        "client": b'\x00endpoint = "tcp://gpu-host:7717"\ntoken = "t"\nsync = true\ncount = 2\nmem = "4GiB"\n',
        "server": b"\x01" + server.encode(),
        **{f"server-{line.split(' ')[0]}": b"\x01" + line.encode() for line in server.splitlines()},
        "server-files": b'\x01token_file = "none"\ntoken_verifier = "none"\npool_token_file = "none"\n',
        "verifiers": b"\x02# tenants\n" + verifier + b" alice\n\n" + verifier + b"\r\n",
        "verifiers-short": b"\x02" + verifier[:-1],
        "verifiers-more": b"\x02" + verifier + b" a b",
        "verifiers-nul": b"\x02farcall-verifier-1\x00 x",
        "token": b"\x03  secret \r\nmore",
        "token-empty": b"\x03",
        "token-spaces": b"\x03 \t\v\n",
        "url-brackets": b"\x04tcp://[[a]:1",
        "url-escape": b"\x04\x1b[2J\nnothing",
        "url-port": b"\x04tcp://h:65536",
        "url-v6": b"\x04tcp://[fe80::1%eth0]:7717/",
        **{f"quantity-{i}": b"\x04" + text.encode() for i, text in enumerate(
            ("4GiB", "1.5MiB", "18446744073709551615", "18446744073709551616B", "0.0000000001TB", "12.5%", "100.1%", "0.3", "100MB/s", "1125899906842625B/s", "1.8", "16",
             "700000-700255", "0-5", "4294967295-4294967295", "mps", "0=mps,1=slice,0=mig", "high", "tenant", "report"))},
    }


def answers():
    keep, ask, session, file = range(4)

    def step(what, which, body=b""):
        return struct.pack("<BBH", what, which, len(body)) + body

    record = struct.pack("<IIB7x", 24, 0, 1) + b"\0" * 8
    return {
        "one-server": step(keep, 8, b"q-answer") + step(ask, 8, b"q"),
        "another-server": step(keep, 8, b"q-poison") + step(ask, 9, b"q") + step(keep, 9, b"q-honest") + step(ask, 9, b"q") + step(ask, 8, b"q"),
        "another-library-and-version": step(keep, 8, b"q-answer") + step(ask, 10, b"q") + step(ask, 12, b"q"),
        "twice": step(keep, 8, b"q-first") + step(keep, 8, b"q-second") + step(ask, 8, b"q"),
        "large": step(keep, 8, b"q" * 60000) + step(ask, 8, b"q"),
        "session": step(session, 9, b"qqqq-answer") + step(session, 1, b"qqqq") + step(session, 3, b"qqqq") + step(session, 0, b"qqqq") + step(session, 0xF0) + step(session, 1, b"qqqq"),
        "file-torn": step(file, 1, record[:20]) + step(file, 2, b"more"),
        "file-lies": step(file, 3, struct.pack("<IIB7x", 0xFFFFFFFF, 0, 1)) + step(file, 1, struct.pack("<IIB7x", 0, 0, 1)),
    }


def main():
    out = pathlib.Path(sys.argv[1])
    for target, seeds in (("rest", rest()), ("pool_messages", pool_messages()), ("lease", lease()), ("config", config()), ("answers", answers())):
        (out / target).mkdir(parents=True, exist_ok=True)
        for key, data in seeds.items():
            (out / target / key).write_bytes(data)


if __name__ == "__main__":
    main()
