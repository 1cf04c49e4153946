# SPDX-License-Identifier: Apache-2.0
"""One tenant on a server with its defaults: sessions, images and what it asks for are bounded."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import BUILD, FARCALL, KEPT, Client, Server, run, until


class TenantBounds(unittest.TestCase):
    def test_sessions_of_one_address(self):
        with Server("--max-tenant-sessions", "2") as server:
            held = [Client(server.url, "hold", 1, stdin=subprocess.PIPE) for _ in range(2)]
            for client in held:
                client.wait_line("held")
            refused = run(server.url, "hold", 1)
            self.assertNotEqual(refused.process.returncode, 0)
            self.assertIn("has 2 sessions of 2 here", "\n".join(refused.err))
            held[0].process.stdin.close()
            held[0].wait()
            until(lambda: len(server.workers()) == 1, what="one is gone")
            # The server hears of it a moment later.
            until(
                lambda: run(server.url, "hold", 1).process.returncode == 0, what="room for another"
            )
            held[1].process.stdin.close()
            held[1].wait()

    def test_memory_of_all_vgpus_of_a_tenant(self):
        with Server("--mem", "256MiB", "--tenant-mem", "384MiB") as server:
            (first,) = held = [Client(server.url, "hold", 200, stdin=subprocess.PIPE)]
            first.wait_line("held")
            self.assertNotEqual(run(server.url, "hold", 200).process.returncode, 0)
            self.assertIn("of the tenant's 402653184", server.log_text())
            held.append(Client(server.url, "hold", 100, stdin=subprocess.PIPE))
            held[1].wait_line("held")
            first.process.stdin.close()
            first.wait()
            # The server hears of it a moment later.
            until(
                lambda: run(server.url, "hold", 200).process.returncode == 0,
                what="what came back can be had",
            )
            held[1].process.stdin.close()
            held[1].wait()

    def test_the_images_of_all_owners_are_bounded(self):
        with tempfile.TemporaryDirectory() as cache:
            for owner in range(8):
                folder = pathlib.Path(cache, "server", f"{owner:032x}")
                folder.mkdir(parents=True)
                for image in range(4):
                    path = folder / f"{image:064x}"
                    path.write_bytes(bytes(1 << 16))
                    os.utime(path, (owner, owner))
            kept = lambda: [path for path in pathlib.Path(cache).rglob("*") if path.is_file()]
            with Server(
                "--image-store-max", "1MiB", environment={"FARCALL_CACHE_DIR": cache}
            ) as server:
                until(lambda: len(kept()) <= 16, what="the bound holds")
                self.assertEqual(
                    {path.parent.name for path in kept()},
                    {f"{owner:032x}" for owner in range(4, 8)},
                )
                self.assertEqual(run(server.url, "steps", 2, 0).process.returncode, 0)

    def test_a_private_server_gives_its_user_all(self):
        with tempfile.TemporaryDirectory() as home:
            environment = {"PATH": "/usr/bin:/bin", "HOME": home, "FARCALL_VGPU": "one", **KEPT}
            for flags in (["--share", "100%"], ["--priority", "high"]):
                done = subprocess.run(
                    [
                        FARCALL,
                        "run",
                        "--device",
                        "cpu",
                        *flags,
                        "--",
                        BUILD / "tests/session/steps",
                        "1",
                        "0",
                    ],
                    env=environment,
                    capture_output=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_worker_is_not_told_the_token(self):
        token = "a-token-that-nobody-else-knows"
        with Server(token=token) as server:
            client = Client(server.url, "hold", 1, token=token, stdin=subprocess.PIPE)
            client.wait_line("held")
            (worker,) = server.workers()[-1:]
            found = 0
            with (
                open(f"/proc/{worker}/maps", encoding="ascii") as maps,
                open(f"/proc/{worker}/mem", "rb", 0) as memory,
            ):
                for line in maps:
                    where, rights, *rest = line.split()
                    begin, end = (int(part, 16) for part in where.split("-"))
                    if "rw" not in rights or end - begin > 1 << 28 or rest[-1:] == ["[vvar]"]:
                        continue
                    try:
                        memory.seek(begin)
                        found += memory.read(end - begin).count(token.encode())
                    except (OSError, ValueError):
                        continue
            client.process.stdin.close()
            client.wait()
            # Its environment and its arguments are not the supervisor's either.
            self.assertEqual(found, 0)


if __name__ == "__main__":
    unittest.main()
