# SPDX-License-Identifier: Apache-2.0
"""What the scripts of vLLM share: its engine in this process, a small Llama with random weights, tokens in and out."""

import json
import os
import pathlib
import tempfile

from subject import DEVICE, fact

FOLDER = tempfile.mkdtemp()
os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_CACHE_ROOT=f"{FOLDER}/cache",
)
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # nvcc would compile it at its first use
# The newer runner reads from the device how many tokens it sampled, which no kernel computes on the dry one: it would never end.
os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0" if DEVICE == "dry" else "1")

import vllm  # noqa: E402  it reads these at once

PROMPTS, NEW, VOCABULARY = 3, 16, 512
SETTINGS = {
    "skip_tokenizer_init": True,
    "load_format": "dummy",
    "dtype": "bfloat16",
    "max_model_len": 256,
    "max_num_seqs": 4,
    "gpu_memory_utilization": 0.3,
    "kv_cache_memory_bytes": 64 << 20,
    "disable_log_stats": True,
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def engine(**settings):
    (pathlib.Path(FOLDER) / "config.json").write_text(json.dumps(CONFIG))
    return vllm.LLM(model=FOLDER, **SETTINGS, **settings)


def generates(llm, **how):
    prompts = [
        {"prompt_token_ids": [(3 + at * 7 + row) % VOCABULARY for at in range(12)]}
        for row in range(PROMPTS)
    ]
    outputs = llm.generate(
        prompts,
        vllm.SamplingParams(max_tokens=NEW, ignore_eos=True, detokenize=False, **how),
        use_tqdm=False,
    )
    lengths = [len(output.outputs[0].token_ids) for output in outputs]
    fact(lengths == [NEW] * PROMPTS, f"{lengths} tokens, not {NEW} each")
