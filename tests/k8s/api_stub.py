# SPDX-License-Identifier: Apache-2.0
"""An API server for tests: pods and one namespace over HTTPS, with lists in pages, watches, bookmarks
and 410, in the form in which Kubernetes' own answers. Other objects are what a test puts there; they can be read,
replaced and patched."""

import http.server
import json
import pathlib
import re
import ssl
import subprocess
import threading
import urllib.parse
import uuid

TOKEN = "account-token"


def certificate(folder):
    """(certificate, key) of 127.0.0.1, which is its own authority."""
    paths = pathlib.Path(folder, "api.pem"), pathlib.Path(folder, "api.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-out", paths[0], "-keyout", paths[1]],
        check=True,
        capture_output=True,
    )
    return paths


class ApiStub:
    def __init__(self, folder, node):
        """`node`: whose pods alone are asked for; None: those of all."""
        self.node = node
        self.files = certificate(folder)
        self.lock = threading.Condition()
        self.pods = {}  # (namespace, name) -> object
        self.events = []  # (version, type, object)
        self.version, self.oldest, self.port = 100, 100, 0
        self.lists = self.watches = 0
        self.objects = {}  # path -> object
        self.collections = (
            set()
        )  # paths in which server-side apply makes objects, and DELETE ends them
        self.writes = []  # (method, path), of these
        self.told_events = []  # Events, as they were written
        self.connections = set()  # (address, port) of the clients
        self.post = None  # (path, body) -> (status, object): what a test answers to a POST
        self.server = None
        self.start()

    # ---- what a test does

    def start(self):
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                stub._get(self)

            def do_PUT(self):
                stub._change_object(self)

            def do_PATCH(self):
                stub._change_object(self)

            def do_DELETE(self):
                stub._delete(self)

            def do_POST(self):
                stub._post(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files)
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        server, self.server = self.server, None
        server.shutdown()
        server.server_close()
        with self.lock:
            self.lock.notify_all()

    def forget_events(self):
        """Watches that go on from before now are told 410."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.events.clear()
            self.lock.notify_all()

    def add(
        self,
        name,
        namespace="default",
        count="1",
        node=None,
        init=(),
        allocation=(),
        containers=("main",),
        gates=(),
        **annotations,
    ):
        """`init`: containers that run first; `allocation`: annotations that a scheduler extender writes."""
        pod = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "annotations": {f"farcall.io/{key}": value for key, value in annotations.items()}
                | dict(allocation),
            },
            "spec": {
                "nodeName": node or self.node,
                **({"initContainers": list(init)} if init else {}),
                **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
                "containers": [
                    {"name": container, "resources": {"limits": {"farcall.io/vgpu": count}}}
                    for container in containers
                ],
            },
            "status": {"phase": "Pending"},
        }
        self._change("ADDED", pod)
        return pod

    def finish(self, pod, phase="Succeeded"):
        pod["status"]["phase"] = phase
        self._change("MODIFIED", pod)

    def delete(self, pod):
        self._change("DELETED", pod)

    def _change(self, kind, pod):
        with self.lock:
            self.version += 1
            pod["metadata"]["resourceVersion"] = str(self.version)
            key = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if kind == "DELETED":
                del self.pods[key]
            else:
                self.pods[key] = pod
            self.events.append((self.version, kind, json.loads(json.dumps(pod))))
            self.lock.notify_all()

    # ---- what the server answers

    def _body(self, request):
        return json.loads(request.rfile.read(int(request.headers["Content-Length"])))

    def _change_object(self, request):
        """A PUT, a merge patch, or a JSON patch that adds."""
        path, change = request.path.split("?")[0], self._body(request)
        if request.headers.get("Authorization") != "Bearer " + TOKEN:
            return self._answer(request, 401, self._status(401, "Unauthorized"))
        if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)", path):
            return self._patch_pod(request, found.groups(), change)
        if "/events/" in path:
            self.told_events.append(change)
            return self._answer(request, 201, change)
        with self.lock:
            if path.rpartition("/")[0] in self.collections:
                self.writes.append(("APPLY", path))
                self.objects.setdefault(path, {})
                change["metadata"]["resourceVersion"] = ""
            told = self.objects.get(path.removesuffix("/status"))
            if told is None:
                return self._answer(request, 404, self._status(404, f"{path} not found"))
            if isinstance(change, list):
                for step in change:
                    *parts, last = step["path"].strip("/").split("/")
                    at = told
                    for part in parts:
                        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
                    if step["op"] == "add":
                        at[last] = step["value"]
            elif request.command == "PUT" or path.rpartition("/")[0] in self.collections:
                told.clear()
                told.update(change)
            else:
                self._merge(told, change)
            self.version += 1
            told.setdefault("metadata", {})["resourceVersion"] = str(self.version)
            self.lock.notify_all()
        return self._answer(request, 200, told)

    def _patch_pod(self, request, key, change):
        """A strategic merge patch of annotations, and of scheduling gates, which can only be taken away."""
        wanted = "application/strategic-merge-patch+json"
        assert request.headers["Content-Type"] == wanted, request.headers
        with self.lock:
            pod = self.pods.get(key)
            if pod is None:
                return self._answer(request, 404, self._status(404, f'pods "{key[1]}" not found'))
            if change["metadata"]["uid"] != pod["metadata"]["uid"]:
                return self._answer(request, 409, self._status(409, "the uid differs"))
            removed = change.get("spec", {}).get("schedulingGates", [])
            assert all(gate["$patch"] == "delete" for gate in removed), removed
            gone = {gate["name"] for gate in removed}
            self._merge(pod["metadata"]["annotations"], change["metadata"].get("annotations", {}))
            gates = pod["spec"].get("schedulingGates", [])
            pod["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] not in gone]
            self.writes.append(("PATCH", request.path))
        self._change("MODIFIED", pod)
        return self._answer(request, 200, pod)

    def _delete(self, request):
        self._body(request)
        with self.lock:
            self.writes.append(("DELETE", request.path))
            told = self.objects.pop(request.path, None)
        if told is None:
            return self._answer(request, 404, self._status(404, "not found"))
        return self._answer(request, 200, told)

    def _merge(self, told, change):
        for key, value in change.items():
            if value is None:
                told.pop(key, None)
            elif isinstance(value, dict):
                self._merge(told.setdefault(key, {}), value)
            else:
                told[key] = value

    def _post(self, request):
        body = self._body(request)
        if request.headers.get("Authorization") != "Bearer " + TOKEN:
            return self._answer(request, 401, self._status(401, "Unauthorized"))
        status, told = (
            self.post(request.path, body) if self.post else (404, self._status(404, "no"))
        )
        return self._answer(request, status, told)

    def _get(self, request):
        self.connections.add(request.client_address)
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        if request.headers.get("Authorization") != "Bearer " + TOKEN:
            return self._answer(request, 401, self._status(401, "Unauthorized"))
        if parts == ["api", "v1", "namespaces", "kube-system"]:
            return self._answer(request, 200, {"metadata": {"uid": "0e1b7c1e-cluster"}})
        if parts[:3] == ["api", "v1", "namespaces"] and parts[4:5] == ["pods"]:
            with self.lock:
                pod = self.pods.get((parts[3], parts[5]))
            if pod is None:
                return self._answer(request, 404, self._status(404, f'pods "{parts[5]}" not found'))
            return self._answer(request, 200, pod)
        if parts == ["api", "v1", "pods"] and query.get("watch"):
            return self._watch(request, int(query["resourceVersion"]))
        if parts == ["api", "v1", "pods"]:
            return self._list(request, query)
        if url.path in self.collections and query.get("watch"):
            return self._watch_objects(request, url.path)
        if url.path in self.collections:
            with self.lock:
                items = self._items(url.path)
                metadata = {"resourceVersion": str(self.version)}
            return self._answer(request, 200, {"metadata": metadata, "items": items})
        if url.path in self.objects:
            return self._answer(request, 200, self.objects[url.path])
        return self._answer(request, 404, self._status(404, "not found"))

    def _items(self, collection):
        """Its objects, of all namespaces. Under the lock."""
        start, _, kind = collection.rpartition("/")
        item = re.compile(f"{start}/(namespaces/[^/]+/)?{kind}/[^/]+")
        return [told for path, told in self.objects.items() if item.fullmatch(path)]

    def put(self, path, told):
        """An object of a collection, made or replaced by somebody else."""
        with self.lock:
            self.version += 1
            told["metadata"]["resourceVersion"] = str(self.version)
            self.objects[path] = told
            self.lock.notify_all()

    def _watch_objects(self, request, collection):
        """Tells all of them again whenever anything has changed; no end of one."""
        server, told_of = self.server, None
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while True:
            with self.lock:
                self.lock.wait_for(
                    lambda: self.server is not server or self.version != told_of, timeout=5
                )
                if self.server is not server:
                    return request.connection.close()
                told_of = self.version
                lines = [
                    json.dumps({"type": "MODIFIED", "object": told}).encode() + b"\n"
                    for told in self._items(collection)
                ]
            for line in lines:
                request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            request.wfile.flush()

    def _is_seen(self, pod):
        return self.node is None or pod["spec"]["nodeName"] == self.node

    @staticmethod
    def _status(code, message):
        return {"kind": "Status", "status": "Failure", "code": code, "message": message}

    def _list(self, request, query):
        """In pages of two, whatever is asked for."""
        wanted = f"spec.nodeName={self.node}" if self.node else None
        assert query.get("fieldSelector") == wanted, query
        with self.lock:
            self.lists += 1
            first = int(query.get("continue", 0))
            pods = [pod for pod in self.pods.values() if self._is_seen(pod)]
            metadata = {"resourceVersion": str(self.version)}
            if first + 2 < len(pods):
                metadata["continue"] = str(first + 2)
            answer = {"kind": "PodList", "metadata": metadata, "items": pods[first : first + 2]}
        self._answer(request, 200, answer)

    def _watch(self, request, after):
        server = self.server
        self.watches += 1
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while True:
            with self.lock:
                self.lock.wait_for(
                    lambda: self.server is not server
                    or self.oldest > after
                    or (self.events and self.events[-1][0] > after),
                    timeout=5,
                )
                if self.server is not server:
                    return request.connection.close()
                if self.oldest > after:
                    events = [("ERROR", self._status(410, "too old resource version"))]
                else:
                    events = [
                        (kind, pod)
                        for version, kind, pod in self.events
                        if version > after and self._is_seen(pod)
                    ]
                    after = self.version
                    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": str(after)}}
                    events.append(("BOOKMARK", bookmark))
            for kind, told in events:
                line = json.dumps({"type": kind, "object": told}).encode() + b"\n"
                request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            request.wfile.flush()
            if events[-1][0] == "ERROR":
                request.wfile.write(b"0\r\n\r\n")
                return None

    @staticmethod
    def _answer(request, status, body):
        text = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)
