# SPDX-License-Identifier: Apache-2.0
"""Clean Debian roots: made once by debootstrap, copied for each test, entered by chroot or booted by systemd-nspawn."""

import os
import pathlib
import shutil
import subprocess

MIRROR = os.environ.get("FARCALL_DEBIAN_MIRROR", "http://deb.debian.org/debian")
# What a booted root needs besides the base; dbus: systemctl in it.
BOOTABLE = "ca-certificates,systemd,systemd-sysv,dbus,logrotate"
ENTER = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/dev/shm" &&
mount -t sysfs -o ro sysfs "$1/sys" && exec chroot "$@"
"""


def must(*command, **options):
    """Runs a command.   Errors  AssertionError, with what it printed"""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


class Root:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    @classmethod
    def base(cls, cache, release="bookworm", include=BOOTABLE):
        """The root that others are copies of, kept in `cache`."""
        root = cls(pathlib.Path(cache) / release)
        if not (root.folder / ".ready").exists():
            shutil.rmtree(root.folder, ignore_errors=True)
            root.folder.mkdir(parents=True)
            must(
                "debootstrap",
                "--variant=minbase",
                f"--include={include}",
                release,
                root.folder,
                MIRROR,
            )
            (root.folder / ".ready").touch()
        return root

    def copy(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        must("cp", "-a", "--reflink=auto", self.folder, folder)
        shutil.copy("/etc/resolv.conf", pathlib.Path(folder) / "etc/resolv.conf")
        return Root(folder)

    def run(self, *command, timeout=600):
        """In namespaces of its own for mounts and processes: nothing outlives the command."""
        return must(
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            ENTER,
            "sh",
            self.folder,
            *command,
            timeout=timeout,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C.UTF-8",
                "HOME": "/root",
            },
        )

    def install(self, packages, *more):
        inside = self.folder / "packages"
        inside.mkdir(exist_ok=True)
        for package in packages:
            shutil.copy(package, inside)
        self.run("apt-get", "update", "-q")
        return self.run(
            "apt-get",
            "install",
            "-y",
            "--no-install-recommends",
            *more,
            *(f"/packages/{path.name}" for path in packages),
        )

    def boot(self, program, timeout=600):
        """Boots; `program`, a file, runs as a unit when all services are up, and its end powers off.   Returns its output."""
        shutil.copy(program, self.folder / "opt/booted")
        unit = self.folder / "etc/systemd/system/booted.service"
        unit.write_text(
            "[Unit]\nAfter=farcall-server.service farcall-pool.service\n[Service]\nType=oneshot\nExecStart=/opt/booted\n"
            "StandardOutput=file:/opt/booted.log\nStandardError=inherit\nTimeoutStartSec=infinity\n"
            "ExecStopPost=systemctl poweroff --no-block\n"
        )
        wants = self.folder / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / unit.name).symlink_to(f"../{unit.name}")
        subprocess.run(
            [
                "systemd-nspawn",
                "-q",
                "--register=no",
                "--keep-unit",
                "-D",
                str(self.folder),
                "--boot",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        return (self.folder / "opt/booted.log").read_text()
