# SPDX-License-Identifier: Apache-2.0
"""Generation with a cache of keys and values: greedy and sampled, a growing and a fixed cache, Llama and GPT-2."""

import torch
from language_models import PROMPT, VOCABULARY, generated, gpt2, llama, prompt
from subject import EXECUTES, check, close, equal, fact, main, marked

NEW = 24


def agrees(model, **how):
    want = generated(model, NEW, **how)
    equal(generated(model.cuda(), NEW, **how), want)


@check
def logits_of_a_prompt():
    model = llama()
    with torch.no_grad():
        want = model(prompt()).logits
        close(model.cuda()(prompt().cuda()).logits, want, rtol=1e-3, atol=1e-4)


@check
def greedy():
    agrees(llama(), do_sample=False)


@check
def greedy_by_gpt2():
    agrees(gpt2(), do_sample=False)


@check
def a_fixed_cache():
    agrees(llama(), do_sample=False, cache_implementation="static", disable_compile=True)


@check
def sampled():
    out = generated(llama().cuda(), NEW, do_sample=True, temperature=0.8, top_k=20, top_p=0.9)
    if EXECUTES:
        fact(int(out.max()) < VOCABULARY, "a token outside the vocabulary")


@check
def several_sequences():
    model = llama().cuda()
    ids = torch.cat([prompt(), prompt() + 1]).cuda()
    with torch.no_grad():
        out = model(ids, use_cache=True)
        step = model(ids[:, -1:], past_key_values=out.past_key_values, use_cache=True)
    fact(step.logits.cpu().shape == (2, 1, VOCABULARY), "logits of one step")
    fact(step.past_key_values.get_seq_length() == PROMPT + 1, "length of the cache")


@check
def half_precision():
    generated(llama().half().cuda(), NEW, do_sample=False)


@check
def what_a_token_costs():
    model = llama().cuda()
    generated(model, NEW, do_sample=False)
    with marked(f"{NEW} greedy tokens"):
        generated(model, NEW, do_sample=False)


main()
