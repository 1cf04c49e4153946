# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp's scripts share: a small Llama with random weights in a GGUF file of any weight type, and its logits."""

import contextlib
import ctypes
import tempfile

import gguf
import llama_cpp
import numpy as np
import subject

VOCABULARY, WIDTH, HIDDEN, HEADS, KV_HEADS, LAYERS, CONTEXT = 288, 256, 512, 8, 4, 2, 128
PROMPT = [3 + i * 7 % 256 for i in range(24)]
_folder = tempfile.TemporaryDirectory()


def tensors():
    random = np.random.default_rng(1)

    def matrix(rows, columns):
        return random.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    yield "token_embd.weight", random.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32)
    for layer in range(LAYERS):
        kv = WIDTH * KV_HEADS // HEADS
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (kv, WIDTH),
            "attn_v": (kv, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", matrix(*shape)
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
    yield "output_norm.weight", random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
    yield "output.weight", matrix(VOCABULARY, WIDTH)


def add_vocabulary(writer):
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [f"<word{i}>" for i in range(VOCABULARY - len(tokens))]
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types(
        [
            kinds.UNKNOWN,
            kinds.CONTROL,
            kinds.CONTROL,
            *[kinds.BYTE] * 256,
            *[kinds.NORMAL] * (VOCABULARY - 259),
        ]
    )


def model_file(weights, rounded_to=None):
    """A GGUF file whose matrices are of the type named, such as F16 or Q8_0; as F32, with the values that `rounded_to` keeps."""
    path = f"{_folder.name}/{weights}-{rounded_to}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    add_vocabulary(writer)
    kind = gguf.GGMLQuantizationType[weights]
    for name, tensor in tensors():
        if rounded_to and tensor.ndim > 1:
            kept = gguf.GGMLQuantizationType[rounded_to]
            tensor = gguf.quants.dequantize(gguf.quants.quantize(tensor, kept), kept)
        if tensor.ndim == 1 or weights == "F32":
            writer.add_tensor(name, tensor)
        else:
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def model(path, on_device, **how):
    on = (
        {"n_gpu_layers": -1}
        if on_device
        else {"n_gpu_layers": 0, "offload_kqv": False, "op_offload": False}
    )
    return llama_cpp.Llama(
        path, n_ctx=CONTEXT, logits_all=True, verbose=False, n_threads=2, **on, **how
    )


def logits(llama, tokens):
    """Of each token, after those the model has seen already."""
    seen = llama.n_tokens
    llama.eval(tokens)
    return llama.scores[seen : seen + len(tokens)].copy()


def decode(llama, tokens):
    """One token at a time, as generation does."""
    return np.concatenate([logits(llama, [token]) for token in tokens])


@contextlib.contextmanager
def marked(what):
    """As subject.marked, without PyTorch."""
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuProfilerStart()
    yield
    cuda.cuProfilerStop()
    subject.note("marked", what)
