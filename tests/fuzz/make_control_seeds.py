#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Named seeds for fuzz_control, one for each message of a worker's and for each way to send a wrong one.

    make_control_seeds.py OUT

An input is a row of steps, each a byte and what belongs to it (control_fuzz.cc):
    0 to 15     a packet: a byte of flags, then its bytes
                flags 1, 2, 4: with a memory file, with a pipe, with the first of these once more
                flag 8: any bytes; a count of 20s, then they
                else a message, with flag 16: another version (which byte, xor), 32: cut (by how much),
                64: lengthened (by how many 20s), 128: with another byte (where, what)
    16 to 63    time passes: its square in sixteenths of a millisecond
    64 to 255   a message is heard: its type, then its fields
A device is a byte (0: host memory, 1: device 0 ...), a yes or no is a byte, a text is a count and its bytes. A number is
a byte whose upper three bits say what the lower five mean: see Input::Number.
"""

import os
import sys

# server/control/message.h: kType of each, and its fields in their order.
MESSAGES = {
    "WantLease": (5, ["device", "number", "number"]),
    "LeaseUse": (6, ["device", "number", "number", "number"]),
    "LeaseRuns": (7, ["device", "number"]),
    "LeaseDone": (8, ["device", "yes", "number", "number"]),
    "Charge": (9, ["number", "device", "number"]),
    "Refund": (11, ["device", "number"]),
    "AskUsage": (12, ["number", "device"]),
    "Unspent": (14, ["device", "number"]),
    "Idle": (18, ["yes"]),
    "WantIn": (19, []),
    "Moved": (20, ["device", "number"]),
    "SwapDone": (21, ["enum", "number", "number"]),
    "DeviceFull": (22, ["device", "number"]),
    "Share": (23, ["number", "device", "number"]),
    "Redeem": (25, ["number", "number", "number"]),
    "Drop": (27, ["number", "number"]),
    "WantNetBytes": (30, []),
    "NetUse": (31, ["number", "number", "number"]),
    "AskProcesses": (37, ["number", "device", "number"]),
    "Peak": (39, ["device", "number"]),
    "Skipped": (40, ["text", "number"]),
    "Ended": (41, ["text", "number", "number"]),
}
STOP = 35  # the supervisor's: no worker sends it
OUT, STAYED, IN, NO_ROOM = range(4)
HEAR, PACKET = 255, 0
SECOND = 63  # 248 ms: four of them


def number(value):
    """As few bytes as say it."""
    if value < 32:
        return bytes([value])
    if value > (1 << 64) - 33:
        return bytes([32 + (1 << 64) - 1 - value])
    return bytes([160]) + value.to_bytes(8, "big")


def ms(count):
    assert count < 32
    return bytes([128 + count])


def mib32(count):
    """So many times 32 MiB."""
    assert count < 32
    return bytes([96 + count])


def message(name, *fields):
    """A field is a value, or the bytes that say it."""
    kind, wanted = MESSAGES[name]
    assert len(fields) == len(wanted), name
    out = bytes([kind])
    for value, field in zip(fields, wanted):
        if isinstance(value, bytes) and field != "text":
            out += value
        elif field == "device":
            out += bytes([value + 1])
        elif field in ("yes", "enum"):
            out += bytes([value])
        elif field == "text":
            out += bytes([len(value)]) + value
        else:
            out += number(value)
    return out


def hear(name, *fields):
    return bytes([HEAR]) + message(name, *fields)


def packet(body, flags=0, *more):
    return bytes([PACKET, flags]) + body + bytes(more)


def time(*steps):
    return bytes(steps)


def seeds():
    any_of = {
        name: [1 if field == "number" else 0 if field != "text" else b"text" for field in fields]
        for name, (_, fields) in MESSAGES.items()
    }
    whole = {
        f"message-{name}": packet(message(name, *fields)) + hear(name, *fields)
        for name, fields in any_of.items()
    }
    swap_done = message("SwapDone", OUT, 1, 1)
    share, idle = message("Share", 1, 0, 0), message("Idle", 1)
    largest = (1 << 64) - 1
    return whole | {
        "lease-of-nothing": time(47)
        + hear("WantLease", 0, ms(31), largest - 13)
        + hear("Drop", 0, 0),
        "lease-held": hear("WantLease", 0, 0, 0)
        + time(SECOND) * 8
        + hear("LeaseDone", 0, 1, 0, 0)
        + time(SECOND) * 8,
        "lease-used-without-end": hear("WantLease", 0, 0, 0)
        + hear("LeaseUse", 0, largest, 0, largest) * 4
        + time(SECOND),
        "lease-runs-for-ever": hear("WantLease", 0, 0, 0)
        + (hear("LeaseRuns", 0, ms(31)) + time(20)) * 8,
        "lease-of-no-device": hear("WantLease", 2, 0, 0) + hear("WantLease", -1, 0, 0),
        "charge-all": hear("Charge", 1, 0, mib32(16))
        + hear("Charge", 2, 1, mib32(16))
        + hear("Charge", 3, 0, 1),
        "charge-without-id": hear("Charge", 0, 0, 1),
        "charge-of-host-memory": hear("Charge", 1, -1, 1) + hear("Refund", -1, 1),
        "refund-more-than-charged": hear("Charge", 1, 0, mib32(1)) + hear("Refund", 0, largest),
        "share-some": hear("Charge", 1, 0, mib32(2))
        + hear("Share", 2, 0, mib32(1))
        + hear("Refund", 0, mib32(1)),
        "device-full": hear("Charge", 1, 0, mib32(16))
        + hear("Refund", 0, mib32(16))
        + hear("DeviceFull", 0, mib32(16))
        + time(SECOND),
        "moved-unasked": hear("Charge", 1, 0, mib32(16))
        + hear("Moved", 0, mib32(16))
        + hear("SwapDone", OUT, largest, largest),
        "idle-then-in": hear("Charge", 1, 0, mib32(16))
        + hear("Idle", 1)
        + time(SECOND) * 8
        + hear("WantIn")
        + hear("SwapDone", IN, 0, 0),
        "net-use-shrinks": hear("NetUse", 9, 9, 9)
        + hear("NetUse", 1, 1, 1)
        + hear("WantNetBytes") * 3
        + time(SECOND),
        "packet-of-the-supervisor": packet(bytes([STOP])),
        "packet-of-no-type": packet(bytes([0])) + packet(bytes([63])),
        "packet-of-another-version": packet(swap_done, 16, 0, 3),
        "packet-without-magic": packet(swap_done, 16, 1, 255),
        "packet-cut": packet(swap_done, 32, 1) + packet(idle, 32, 1),
        "packet-without-body": packet(swap_done, 32, 16),
        "packet-lengthened": packet(swap_done, 64, 1),
        "packet-too-long": packet(swap_done, 64, 255),
        "packet-of-wrong-enum": packet(swap_done, 128, 4, 9),
        "packet-of-wrong-yes": packet(idle, 128, 4, 2),
        "packet-of-wrong-text-length": packet(message("Skipped", b"kernel", 1), 128, 8, 255),
        "packet-of-any-bytes": packet(bytes([1]) + bytes(range(20)), 8),
        "packet-shares-memory": packet(share, 1),
        "packet-shares-a-pipe": packet(share, 2),
        "packet-shares-twice": packet(share, 5),
        "packet-shares-memory-and-pipe": packet(share, 3),
        "packet-with-needless-memory": packet(idle, 1),
    }


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, content in seeds().items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main()
