# SPDX-License-Identifier: Apache-2.0
"""Backward passes run on autograd's own threads; programs add theirs. Order holds across all of them."""

import threading

import torch
from subject import check, close, exact, fact, main


@check
def a_product_has_gradients():
    a, b = torch.randn(20, 30, requires_grad=True), torch.randn(30, 10, requires_grad=True)
    grad = torch.randn(20, 10)
    (a @ b).backward(grad)
    x, y = a.detach().cuda().requires_grad_(), b.detach().cuda().requires_grad_()
    (x @ y).backward(grad.cuda())
    close(x.grad, a.grad, rtol=1e-3, atol=1e-3)
    close(y.grad, b.grad, rtol=1e-3, atol=1e-3)


@check
def hooks_run_on_the_backward_thread():
    names, w, slope = [], torch.randn(8, 8), torch.randn(8, 8)
    x = torch.randn(8, 8).cuda().requires_grad_()
    y = x @ w.cuda()
    y.register_hook(lambda grad: names.append(threading.get_ident()))
    y.backward(slope.cuda())
    close(x.grad, slope @ w.t(), rtol=1e-3, atol=1e-3)
    fact(
        len(names) == 1 and names[0] != threading.get_ident(),
        "the hook did not run on autograd's thread",
    )


@check
def checkpointed_segments_are_computed_again():
    from torch.utils.checkpoint import checkpoint

    x, w, slope = torch.randn(6, 6).cuda().requires_grad_(), torch.randn(6, 6), torch.randn(6, 6)
    there = w.cuda()
    checkpoint(lambda t: (t @ there) @ there, x, use_reentrant=False).backward(slope.cuda())
    close(x.grad, slope @ w.t() @ w.t(), rtol=1e-3, atol=1e-3)


@check
def threads_of_the_program_see_each_others_work():
    source = torch.randn(64, 64)
    box, failures = [], []

    def produce():
        box.append(source.cuda() @ torch.eye(64).cuda())

    def consume():
        try:
            close(box[0], source, rtol=1e-4)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    for _ in range(20):
        box.clear()
        for function in (produce, consume):
            thread = threading.Thread(target=function)
            thread.start()
            thread.join()
    if failures:
        raise failures[0]


@check
def eight_threads_copy_at_once():
    failures = []

    def work(seed):
        tensor = torch.full((1 << 16,), float(seed))
        try:
            for _ in range(10):
                fact(
                    torch.equal(tensor.cuda().cpu(), tensor), f"thread {seed} got bytes of another"
                )
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    exact(torch.ones(4).cuda(), torch.ones(4))


main()
