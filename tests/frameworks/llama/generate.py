# SPDX-License-Identifier: Apache-2.0
"""A small Llama in GGUF files of several weight types: the device's logits against llama.cpp's own on the CPU."""

import llama_cpp
import numpy as np
from gguf_models import PROMPT, VOCABULARY, decode, logits, marked, model, model_file
from subject import EXECUTES, check, fact, main, near, note

NEW = 16
NEXT = [3 + i * 11 % 256 for i in range(NEW)]


def agrees(weights, rtol, atol):
    path = model_file(weights)
    on_host, on_device = model(path, False), model(path, True)
    # A prompt at once multiplies matrices; a token at a time, a matrix and a vector. They are different kernels.
    near(logits(on_device, PROMPT), logits(on_host, PROMPT), rtol, atol)
    near(decode(on_device, NEXT), decode(on_host, NEXT), rtol, atol)


@check
def the_device_is_found():
    fact(llama_cpp.llama_supports_gpu_offload(), "llama.cpp sees no device")
    note("llama.cpp", llama_cpp.__version__)


@check
def f32_weights():
    agrees("F32", 1e-2, 1e-2)


@check
def f16_weights():
    agrees("F16", 2e-2, 2e-2)


def rms(values):
    return np.sqrt(np.mean(np.square(values, dtype=np.float64)))


def as_right_as_the_host(weights):
    """Products of quantized matrices round the activations too; how far that leads from the exact product the host shows. llama.cpp's
    kernels for types with an offset take it times the sum of what was not rounded: the error is two to three times the host's."""
    path, exact = model_file(weights), model(model_file("F32", rounded_to=weights), False)
    on_host, on_device = model(path, False), model(path, True)
    for run, tokens in ((logits, PROMPT), (decode, NEXT)):
        want = run(exact, tokens)
        off, got = run(on_host, tokens) - want, run(on_device, tokens)
        near(got, want, 0, 4 * np.abs(off).max())
        if EXECUTES:
            fact(
                rms(got - want) <= 3 * rms(off),
                f"off by {rms(got - want):.4f} on average, the host by {rms(off):.4f}",
            )


@check
def q8_0_weights():
    as_right_as_the_host("Q8_0")


@check
def q4_0_weights():
    as_right_as_the_host("Q4_0")


@check
def q5_1_weights():
    as_right_as_the_host("Q5_1")


@check
def a_part_of_the_layers():
    path = model_file("F32")
    near(logits(model_with_layers(path, 1), PROMPT), logits(model(path, False), PROMPT), 1e-2, 1e-2)


def model_with_layers(path, layers):
    return llama_cpp.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_gpu_layers=layers)


@check
def a_state_is_kept_and_put_back():
    llama = model(model_file("F32"), True)
    logits(llama, PROMPT)
    state = llama.save_state()
    want = decode(llama, NEXT)
    llama.load_state(state)
    near(decode(llama, NEXT), want, 1e-5, 1e-5)


@check
def tokens_are_chosen():
    llama = model(model_file("F16"), True)
    chosen = []
    for token in llama.generate(PROMPT, top_k=40, temp=0.8):
        chosen.append(token)
        if len(chosen) == NEW:
            break
    fact(all(0 <= token < VOCABULARY for token in chosen), f"tokens {chosen}")


@check
def what_a_token_costs():
    llama = model(model_file("F16"), True)
    logits(llama, PROMPT)
    decode(llama, NEXT)
    with marked(f"{NEW} tokens, each read"):
        decode(llama, NEXT)


main()
