# SPDX-License-Identifier: Apache-2.0
"""A wheel that asks for a function we lack: its name in one log line, the API's own error, and the program goes on."""

from support import FaultTest, Server, main, start, told

LACKING = ("cuImportExternalSemaphore", "cuGraphicsMapResources")


class Lacking(FaultTest):
    def test_each_name_is_told_once(self):
        with Server(device="dry") as server:
            client = start(server.url, "lacking.py")
            self.ends_right(client)
            for name in LACKING:
                lines = [line for line in client.err if f"{name} is not supported" in line]
                self.assertEqual(len(lines), 1, told(client))

    def test_what_is_looked_up_in_vain_is_told_to_those_who_ask(self):
        with Server(device="dry") as server:
            client = start(server.url, "lacking.py", FARCALL_LOG="debug")
            self.ends_right(client)
            for name in ("cuTurnTheWorldAround of CUDA 13020", "cuImportExternalMemory of CUDA"):
                self.assertTrue([line for line in client.err if f"no {name}" in line], told(client))


if __name__ == "__main__":
    main()
