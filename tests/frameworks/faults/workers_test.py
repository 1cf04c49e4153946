# SPDX-License-Identifier: Apache-2.0
"""Forked workers killed at random: their parent's session is unharmed, and the server loses nobody."""

from support import FaultTest, Server, main, start


class Workers(FaultTest):
    def unharmed(self, *command):
        with Server(device="dry") as server:
            client = start(server.url, *command)
            self.ends_right(client)
            self.assertNotIn("crash", server.log_text())
            self.assertFalse(
                [line for line in client.err if line.startswith("farcall") and " error" in line],
                client.err,
            )

    def test_eight_workers_killed_at_random(self):
        for seed in (1, 2):
            self.unharmed("workers.py", seed)

    def test_eight_persistent_workers_killed_at_random(self):
        self.unharmed("workers.py", 3, "--persistent")

    def test_forks_that_leave_by_every_door(self):
        self.unharmed("forks.py")


if __name__ == "__main__":
    main()
