# SPDX-License-Identifier: Apache-2.0
"""The profiler without CUPTI on a GPU: CPU times are there, nothing breaks."""

import os
import tempfile

import torch
from subject import check, exact, fact, main
from torch.profiler import ProfilerActivity, profile, record_function


@check
def cpu_activities_are_recorded():
    a = torch.randn(32, 32).cuda()
    with profile(activities=[ProfilerActivity.CPU]) as result:
        with record_function("product"):
            a @ a
        torch.cuda.synchronize()
    names = {event.key for event in result.key_averages()}
    fact("product" in names and "aten::mm" in names, f"{names}")


@check
def asking_for_cuda_activities_breaks_nothing():
    a = torch.randn(32, 32).cuda()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as result:
        a @ a
        torch.cuda.synchronize()
    fact(any(event.key == "aten::mm" for event in result.key_averages()), "no aten::mm")
    with tempfile.TemporaryDirectory() as folder:
        result.export_chrome_trace(os.path.join(folder, "trace.json"))


@check
def ranges_and_marks():
    with torch.cuda.nvtx.range("a range"):
        torch.cuda.nvtx.mark("a mark")
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()
    exact(torch.arange(5).cuda(), torch.arange(5))


@check
def autograd_profiler_with_cuda_times():
    with torch.autograd.profiler.profile(use_device="cuda") as result:
        torch.zeros(100, device="cuda")
    fact(len(result.function_events) > 0, "no events")


main()
