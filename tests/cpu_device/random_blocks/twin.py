# SPDX-License-Identifier: Apache-2.0
"""The two texts of one kernel that grow together: what the device does, and the same for the host."""

import contextlib


class Twin:
    """Lines for the device, where each thread runs them, and for the host, where ALL stands for the threads one after the other."""

    def __init__(self):
        self.on_device = []
        self.on_host = []
        self.depth = 1

    def device(self, line):
        self.on_device.append("  " * self.depth + line)

    def host(self, line):
        self.on_host.append("  " * self.depth + line)

    def both(self, line):
        self.device(line)
        self.host(line)

    @contextlib.contextmanager
    def within(self, device, host=None, end="}"):
        """The lines inside a statement that begins so; on the device alone where `host` is empty."""
        self.device(device)
        if host:
            self.host(host)
        self.depth += 1
        yield
        self.depth -= 1
        self.device(end)
        if host:
            self.host(end)
