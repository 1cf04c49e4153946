# SPDX-License-Identifier: Apache-2.0
"""What the measure_* programs beside this share: the class of tests/k8s/run, the API server without kubectl, and what a
process takes."""

import http.client
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import ssl
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent


def load(name):
    loader = importlib.machinery.SourceFileLoader(f"k8s_{name}", str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


run = load("run")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid):
    words = pathlib.Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("VmRSS:") + 1]) / 1000


def percentile(values, per_cent):
    """The nearest rank."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * per_cent // 100) - 1)]


def conditions():
    """What else the machine does: said with the figures."""
    load_1, load_5, _ = os.getloadavg()
    return f"{os.cpu_count()} cores, load {load_1:.1f} (1 min), {load_5:.1f} (5 min)"


class Api:
    """The API server without kubectl, which sends 5 requests in a second."""

    def __init__(self):
        told = json.loads((run.RUN / "admin.kubeconfig").read_text())
        cluster = told["clusters"][0]["cluster"]
        self.headers = {"Authorization": f"Bearer {told['users'][0]['user']['token']}"}
        self.headers["Content-Type"] = "application/json"
        trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
        where = urllib.parse.urlsplit(cluster["server"])
        self.connection = http.client.HTTPSConnection(where.hostname, where.port, context=trust)

    def call(self, method, path, body=None):
        self.connection.request(method, path, body and json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status < 300, told
        return told
