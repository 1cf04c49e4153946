# SPDX-License-Identifier: Apache-2.0
"""Initialises the device, asks what programs ask of it, and waits for it once."""

import torch

torch.cuda.init()
print(torch.cuda.get_device_properties(0), torch.cuda.mem_get_info())
torch.cuda.synchronize()
