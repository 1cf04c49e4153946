# SPDX-License-Identifier: Apache-2.0
"""Streams, priorities and events."""

import torch
from subject import check, close, exact, fact, main


@check
def work_on_streams_is_ordered_by_events():
    x = torch.randn(256, 256)
    first, second, event = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.Event()
    with torch.cuda.stream(first):
        a = x.cuda(non_blocking=True)
        event.record()
    with torch.cuda.stream(second):
        event.wait()
        b = a.clone()
    second.synchronize()
    exact(b, x)


@check
def events_are_timed():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a = torch.randn(256, 256).cuda()
    start.record()
    for _ in range(5):
        a @ a
    end.record()
    end.synchronize()
    fact(start.elapsed_time(end) >= 0 and end.query() and start.query(), "no time passed")


@check
def streams_wait_for_each_other():
    x = torch.randn(100)
    stream = torch.cuda.Stream()
    a = x.cuda()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        b = torch.empty_like(a).copy_(a)
    torch.cuda.current_stream().wait_stream(stream)
    b.record_stream(torch.cuda.current_stream())
    exact(b, x)


@check
def queries_become_true():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.zeros(1 << 20, device="cuda")
    stream.synchronize()
    fact(stream.query(), "a stream that was waited for is not done")


@check
def many_streams_compute():
    x = torch.randn(64, 64)
    a, parts = x.cuda(), []
    torch.cuda.synchronize()
    for _ in range(16):
        with torch.cuda.stream(torch.cuda.Stream()):
            parts.append(a @ a)
    torch.cuda.synchronize()
    for part in parts:
        close(part, x @ x, rtol=1e-3, atol=1e-3)


main()
