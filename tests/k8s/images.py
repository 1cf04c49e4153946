# SPDX-License-Identifier: Apache-2.0
"""Container images without a registry: archives of files, loaded into the cluster's containerd."""

import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import tarfile

PAUSE = "farcall.test/pause:1"
PAUSE_SOURCE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int sent) { (void)sent; _exit(0); }
static void reap(int sent) { (void)sent; while (waitpid(-1, 0, WNOHANG) > 0) continue; }
int main(void) {
  signal(SIGTERM, end);
  signal(SIGINT, end);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
"""


def archive(path, name, root, command):
    """Writes an image `name` of the folder `root` that runs `command`, as docker-archive."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".", filter=_as_root)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for member, content in (
            ("config.json", config),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def _as_root(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def pause(run):
    root = run / "images/pause"
    (root / "bin").mkdir(parents=True)
    source = run / "images/pause.c"
    source.write_text(PAUSE_SOURCE)
    subprocess.run(["cc", "-static", "-O1", "-s", source, "-o", root / "bin/pause"], check=True)
    return archive(run / "images/pause.tar", PAUSE, root, ["/bin/pause"])


def _copy(root, source, where):
    target = pathlib.Path(root, str(where).lstrip("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(source, target)


def copy_libraries(root, program, below=None):
    """Copies what the loader needs for a program, each library to where it lies here; not those in
    the folder `below`."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", told):
        if below is None or not library.startswith(str(below)):
            _copy(root, library, library)


def copy_program(root, program, to):
    _copy(root, program, to)
    copy_libraries(root, program)


def load(cache, run, path):
    subprocess.run(
        [cache / "root/usr/bin/ctr", "-a", run / "containerd.sock", "-n", "k8s.io"]
        + ["images", "import", "--snapshotter", "native", path],
        check=True,
        capture_output=True,
    )
