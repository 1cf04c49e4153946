# SPDX-License-Identifier: Apache-2.0
"""Products of halves and bfloat16s. What cuBLAS 13.10 chooses first for a compute capability that it does not know is CUDA Tile IR, which the CPU device
refuses at the load: XLA takes the next if it may time two, and without timing raises what cuBLAS says."""

import os
import subprocess
import sys

from subject import EXECUTES, check, fact, main, near

AS_STARTED = dict(os.environ)
if EXECUTES:
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=1 --xla_gpu_autotune_max_solutions=2"
    )
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

RNG = np.random.default_rng(1)
TYPES = {jnp.float16: 2e-3, jnp.bfloat16: 2e-2}  # and what a result of that type is rounded by
UNTIMED = """
import jax.numpy as jnp
a = jnp.arange(64 * 64, dtype=jnp.float32).reshape(64, 64) % 3
try:
    print("equal" if (jnp.dot(a.astype(jnp.bfloat16), a.astype(jnp.bfloat16)) == jnp.dot(a, a).astype(jnp.bfloat16)).all() else "wrong")
except Exception as error:
    print("raised", type(error).__name__)
"""


def rounded(shape, kind):
    """Values of that type, and the same as floats of the host's."""
    values = jnp.asarray(RNG.standard_normal(shape, np.float32)).astype(kind)
    return values, np.asarray(values.astype(jnp.float32))


@check
def products():
    for kind, rounding in TYPES.items():
        for rows, inner, columns in ((64, 64, 64), (33, 48, 17), (1, 128, 64)):
            (a, hosts_a), (b, hosts_b) = (
                rounded((rows, inner), kind),
                rounded((inner, columns), kind),
            )
            want = hosts_a @ hosts_b
            near(jnp.dot(a, b).astype(jnp.float32), want, rtol=rounding, atol=rounding * 8)
            near(jnp.matmul(a, b, preferred_element_type=jnp.float32), want, rtol=1e-4, atol=1e-4)


@check
def batched_products():
    for kind in TYPES:
        (a, hosts_a), (b, hosts_b) = rounded((3, 32, 24), kind), rounded((3, 24, 16), kind)
        near(
            jnp.matmul(a, b, preferred_element_type=jnp.float32),
            hosts_a @ hosts_b,
            rtol=1e-4,
            atol=1e-4,
        )


@check
def gradients():
    for kind in TYPES:
        (a, _), (b, hosts_b) = rounded((32, 32), kind), rounded((32, 32), kind)
        got = jax.jit(
            jax.grad(lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32).sum())
        )(a, b)
        near(
            got.astype(jnp.float32), np.broadcast_to(hosts_b.sum(1), (32, 32)), rtol=2e-2, atol=0.1
        )


@check
def without_timing_it_ends():
    done = subprocess.run(
        [sys.executable, "-c", UNTIMED], env=AS_STARTED, capture_output=True, text=True, timeout=300
    )
    fact(
        not EXECUTES or done.stdout.split() in (["equal"], ["raised", "JaxRuntimeError"]),
        done.stdout + done.stderr[-500:],
    )


main()
