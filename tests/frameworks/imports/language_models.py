# SPDX-License-Identifier: Apache-2.0
"""What the scripts of transformers share: small models with random weights, and generation that ends on every device."""

import torch
import transformers
from subject import EXECUTES, fact
from transformers import GenerationConfig
from transformers.generation import utils

PROMPT, VOCABULARY = 8, 256
SIZES = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}


def llama(layers=2):
    torch.manual_seed(1)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            **SIZES,
        )
    ).eval()


def gpt2():
    torch.manual_seed(1)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_positions=128, n_embd=64, n_layer=2, n_head=4, **SIZES)
    ).eval()


def prompt():
    return torch.arange(PROMPT)[None] * 7 % VOCABULARY


class HostsCount(utils.StopCheck):
    """Reads the flag that ends generation, as ever; where no kernel computed it, the length decides."""

    limit = 0

    def __call__(self, unfinished, tokens, length):
        super().__call__(unfinished, tokens, length)
        return length >= HostsCount.limit


def generated(model, new, **how):
    """Prompt and new tokens."""
    ids, HostsCount.limit = prompt().to(model.device), PROMPT + new
    if not EXECUTES:
        utils.StopCheck = HostsCount
    settings = GenerationConfig(max_new_tokens=new, pad_token_id=0, **how)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    fact(out.shape == (1, PROMPT + new), f"shape {tuple(out.shape)}")
    return out
