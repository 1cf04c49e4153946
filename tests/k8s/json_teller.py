# SPDX-License-Identifier: Apache-2.0
"""A program of the tests that tells what happens to it, a line of JSON each."""

import json
import queue
import subprocess
import threading


class Teller:
    """A process and the lines of JSON that it tells."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = queue.Queue()
        self.ended = []  # calls whose end was told while something else was waited for
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def do(self, verb, **more):
        self.process.stdin.write(json.dumps({"do": verb, **more}) + "\n")
        self.process.stdin.flush()

    def wait(self, event, **wanted):
        """The next line of that kind that says what is wanted; others are passed over, but for ends of calls."""
        while True:
            line = self.lines.get(timeout=90)
            if line["event"] == event and wanted.items() <= line.items():
                return line
            if line["event"] == "prestarted":
                self.ended.append(line)

    def wait_end(self, tag):
        for line in self.ended:
            if line["tag"] == tag:
                self.ended.remove(line)
                return line
        return self.wait("prestarted", tag=tag)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
