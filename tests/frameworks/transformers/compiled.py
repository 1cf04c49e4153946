# SPDX-License-Identifier: Apache-2.0
"""generate with a fixed cache compiles the step (torch.compile, mode reduce-overhead: CUDA graphs) by itself."""

import torch
from language_models import generated, llama
from subject import check, equal, fact, main, marked

NEW = 12


@check
def a_fixed_cache_is_compiled():
    model = llama(layers=1)
    want = generated(model, NEW, do_sample=False)
    model.cuda()
    for _ in range(2):
        equal(generated(model, NEW, do_sample=False, cache_implementation="static"), want)
    with marked(f"{NEW} compiled tokens"):
        generated(model, NEW, do_sample=False, cache_implementation="static")
    counters = torch._dynamo.utils.counters
    fact(counters["stats"]["unique_graphs"] > 0, "nothing was compiled")
    fact(
        counters["inductor"].get("cudagraph_skips", 0) == 0,
        f"graphs were skipped: {dict(counters['inductor'])}",
    )


main()
