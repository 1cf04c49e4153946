# SPDX-License-Identifier: Apache-2.0
"""A decoding step captured into a CUDA graph over a fixed cache, and replayed."""

import torch
import transformers
from language_models import llama, prompt
from subject import check, close, fact, main, marked

NEW = 32


class Decoder:
    """One step: the last token in, the most likely next one out, in the same memory each time."""

    def __init__(self, model):
        self.model = model.cuda()
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=128)
        self.token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        self.position = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        self.graph, self.logits = torch.cuda.CUDAGraph(), None

    def prefill(self, ids):
        logits = self.model(ids.cuda(), past_key_values=self.cache, use_cache=True).logits
        self.token.copy_(logits[:, -1:].argmax(-1))
        self.position.fill_(ids.shape[1])

    def step(self):
        self.logits = self.model(
            self.token, position_ids=self.position, past_key_values=self.cache, use_cache=True
        ).logits
        self.token.copy_(self.logits[:, -1:].argmax(-1))
        self.position.add_(1)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.cache.reset()
        with torch.cuda.graph(self.graph):
            self.step()
        self.cache.reset()


@check
@torch.no_grad()
def a_step_is_captured_and_replayed():
    model = llama()
    ids = prompt()
    first = model(ids, use_cache=True)
    want = model(
        first.logits[:, -1:].argmax(-1), past_key_values=first.past_key_values, use_cache=True
    ).logits
    decoder = Decoder(model)
    decoder.capture()
    decoder.prefill(ids)
    decoder.graph.replay()
    close(decoder.logits, want, rtol=1e-3, atol=1e-4)


@check
@torch.no_grad()
def what_a_replayed_token_costs():
    decoder = Decoder(llama())
    decoder.capture()
    decoder.prefill(prompt())
    decoder.graph.replay()
    torch.cuda.synchronize()
    with marked(f"{NEW} replayed tokens"):
        for _ in range(NEW):
            decoder.graph.replay()
    torch.cuda.synchronize()


@check
@torch.no_grad()
def each_token_is_read():
    decoder = Decoder(llama())
    decoder.capture()
    decoder.prefill(prompt())
    tokens = []
    for _ in range(NEW):
        decoder.graph.replay()
        tokens.append(int(decoder.token))
    fact(len(tokens) == NEW, "tokens")


main()
