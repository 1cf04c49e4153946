# SPDX-License-Identifier: Apache-2.0
"""What the device says of itself."""

import torch
from subject import check, fact, main, note


@check
def the_device_has_properties():
    properties = torch.cuda.get_device_properties(0)
    note("device", properties.name)
    fact(properties.name and properties.total_memory > 0, f"{properties}")
    fact(properties.multi_processor_count > 0 and properties.warp_size == 32, f"{properties}")
    fact(
        (properties.major, properties.minor) == torch.cuda.get_device_capability(0),
        "two capabilities",
    )
    fact(len(str(properties.uuid)) == 36, f"UUID {properties.uuid}")


@check
def free_memory_is_at_most_the_total():
    free, total = torch.cuda.mem_get_info()
    fact(0 < free <= total, f"{free} of {total}")
    fact(total == torch.cuda.get_device_properties(0).total_memory, "two totals")


@check
def another_device_is_refused():
    try:
        torch.cuda.get_device_properties(torch.cuda.device_count())
    except (AssertionError, RuntimeError):
        return
    fact(False, "a device beyond the last was found")


@check
def bfloat16_and_peer_access_are_answered():
    fact(isinstance(torch.cuda.is_bf16_supported(), bool), "no answer")
    if torch.cuda.device_count() > 1:
        fact(isinstance(torch.cuda.can_device_access_peer(0, 1), bool), "no answer")


main()
