# SPDX-License-Identifier: Apache-2.0
"""The cluster's files, and how each of its programs is called."""

import json
import secrets
import subprocess
import urllib.error
import urllib.request

import images

NODE = "farcall-node"
PORTS = {"etcd": 23790, "etcd peers": 23800, "API server": 26443, "scheduler": 20259}
PORTS |= {"kubelet": 20250, "kubelet health": 20248, "controller-manager": 20257}
PORTS |= {"second scheduler": 20261}
WEBHOOK_PORT = 26450  # and the next one
METRICS_PORT = 26452
EXTENDER_PORT = 26453
USERS = {  # file of the kubeconfig: user, group
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", "system:authenticated"),
    "controllers": ("controllers", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
}


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


def write(cache, run):
    _certificates(run)
    tokens = []
    for name, (user, group) in USERS.items():
        token = secrets.token_hex(16)
        tokens.append(f'{token},{user},{user},"{group}"\n')
        (run / f"{name}.kubeconfig").write_text(json.dumps(_kubeconfig(run, token)))
    (run / "tokens.csv").write_text("".join(tokens))
    (run / "kubelet.json").write_text(json.dumps(_kubelet(run)))
    (run / "containerd.toml").write_text(_containerd(cache, run))
    (run / "cni").mkdir()
    loopback = {"cniVersion": "0.3.1", "name": "farcall", "plugins": [{"type": "loopback"}]}
    (run / "cni/10-farcall.conflist").write_text(json.dumps(loopback))
    for path in run.iterdir():
        if path.is_file():
            path.chmod(0o600)


def _openssl(run, *arguments):
    subprocess.run(["openssl", *arguments], cwd=run, check=True, capture_output=True)


def _certificates(run):
    _openssl(run, "genrsa", "-out", "accounts.key", "2048")
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "30")
    for ca in ("ca", "front-ca"):
        files = ("-keyout", f"{ca}.key", "-out", f"{ca}.pem")
        _openssl(run, "req", "-x509", *key, "-subj", f"/CN=farcall-test-{ca}", *files)
    for name, ca, subject, alternatives in (
        ("apiserver", "ca", "/CN=kube-apiserver", "DNS:localhost,IP:127.0.0.1,IP:10.0.0.1"),
        ("kubelet-client", "ca", "/O=system:masters/CN=kube-apiserver", "DNS:kube-apiserver"),
        # By which an API that is not the API server's own knows it.
        ("front-proxy", "front-ca", "/CN=front-proxy-client", "DNS:front-proxy-client"),
    ):
        (run / f"{name}.ext").write_text(f"subjectAltName={alternatives}\n")
        _openssl(
            run, "req", *key, "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        _openssl(
            run,
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            f"{ca}.pem",
            "-CAkey",
            f"{ca}.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.pem",
        )


def _kubeconfig(run, token):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": f"https://127.0.0.1:{PORTS['API server']}",
                    "certificate-authority": str(run / "ca.pem"),
                },
            }
        ],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }


def _kubelet(run):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": PORTS["kubelet"],
        "healthzPort": PORTS["kubelet health"],
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(run / "ca.pem")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # This machine's disk is not the cluster's to clear.
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
    }


def _containerd(cache, run):
    binaries = cache / "root"
    unused = ("aufs", "btrfs", "zfs", "devmapper")
    snapshotters = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in unused)
    return f"""version = 2
root = "{run}/containerd"
state = "{run}/containerd-state"
disabled_plugins = [{snapshotters}]
[grpc]
  address = "{run}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{binaries}/usr/sbin/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{binaries}/usr/lib/cni"
    conf_dir = "{run}/cni"
"""


# Long: a list of command lines.
def commands(cache, run):
    """name -> (command, environment), in the order in which they are started."""
    built, etcd = cache / "bin", f"http://127.0.0.1:{PORTS['etcd']}"
    peers = f"http://127.0.0.1:{PORTS['etcd peers']}"
    unpacked = cache / "root/usr"
    tools = {"PATH": f"{unpacked}/sbin:{unpacked}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return {
        "etcd": (
            [
                cache / "root/usr/bin/etcd",
                f"--data-dir={run}/etcd",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
            ],
            {},
        ),
        "kube-apiserver": (
            [
                built / "kube-apiserver",
                f"--etcd-servers={etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={PORTS['API server']}",
                f"--tls-cert-file={run}/apiserver.pem",
                f"--tls-private-key-file={run}/apiserver.key",
                f"--client-ca-file={run}/ca.pem",
                f"--kubelet-client-certificate={run}/kubelet-client.pem",
                f"--kubelet-client-key={run}/kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP",
                f"--token-auth-file={run}/tokens.csv",
                "--authorization-mode=Node,RBAC",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                f"--service-account-key-file={run}/accounts.key",
                f"--service-account-signing-key-file={run}/accounts.key",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--allow-privileged=true",
                f"--requestheader-client-ca-file={run}/front-ca.pem",
                "--requestheader-allowed-names=front-proxy-client",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                f"--proxy-client-cert-file={run}/front-proxy.pem",
                f"--proxy-client-key-file={run}/front-proxy.key",
                "--enable-aggregator-routing=true",  # there is no kube-proxy
            ],
            {},
        ),
        "containerd": (
            [cache / "root/usr/bin/containerd", "--config", run / "containerd.toml"],
            tools,
        ),
        "kube-scheduler": (
            [
                built / "kube-scheduler",
                f"--kubeconfig={run}/scheduler.kubeconfig",
                "--leader-elect=false",
                "--port=0",
                f"--secure-port={PORTS['scheduler']}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={run}/scheduler-certificate",
            ],
            {},
        ),
        "kube-controller-manager": (
            [
                built / "kube-controller-manager",
                f"--kubeconfig={run}/controllers.kubeconfig",
                "--controllers=deployment,replicaset,horizontalpodautoscaling",
                "--leader-elect=false",
                "--port=0",
                f"--secure-port={PORTS['controller-manager']}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={run}/controllers-certificate",
                "--horizontal-pod-autoscaler-sync-period=2s",
                "--horizontal-pod-autoscaler-downscale-stabilization=2s",
            ],
            {},
        ),
        "kubelet": (
            [
                built / "kubelet",
                f"--config={run}/kubelet.json",
                f"--kubeconfig={run}/kubelet.kubeconfig",
                f"--hostname-override={NODE}",
                "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{run}/containerd.sock",
                f"--cert-dir={run}/kubelet-certificate",
            ],
            tools,
        ),
    }
