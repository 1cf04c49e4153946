# SPDX-License-Identifier: Apache-2.0
"""For each form of CUDA_VISIBLE_DEVICES: how many devices PyTorch expects by NVML and its own reading, and how many CUDA gives it.

visible.py JSON      a list of forms; @0 and @1 stand for the UUIDs of the two devices
"""

import json
import os
import sys

import torch

uuids = torch.cuda._raw_device_uuid_nvml()


def count(form):
    """In a child, since a process reads the variable once."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.environ["CUDA_VISIBLE_DEVICES"] = form
        expected, given = torch.cuda._device_count_nvml(), torch._C._cuda_getDeviceCount()
        os.write(writer, json.dumps([expected, given, torch.cuda.is_available()]).encode())
        os._exit(0)
    os.close(writer)
    got = os.fdopen(reader).read()
    os.wait()
    return json.loads(got)


print(
    json.dumps(
        {
            form: count(form.replace("@0", uuids[0]).replace("@1", uuids[1]))
            for form in json.loads(sys.argv[1])
        }
    )
)
