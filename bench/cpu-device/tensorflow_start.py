#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's start costs on the CPU device alone: import, first product, one training step, peak memory, with an empty kernel
cache and with the one that this left. Wall-clock and processor seconds, since other work on the machine counts in the first.

  tensorflow_start.py [--build build/release] [--venv ~/.cache/farcall/venvs/tensorflow-2.21]
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def child():
    rows, before = {}, [time.monotonic(), time.process_time()]

    def row(name):
        now = [time.monotonic(), time.process_time()]
        rows[name] = [round(now[0] - before[0], 2), round(now[1] - before[1], 2)]
        before[:] = now

    import tensorflow as tf

    row("import")
    if not tf.config.list_physical_devices("GPU"):
        sys.exit("no device was found")
    row("devices")
    with tf.device("/GPU:0"):
        a = tf.reshape(tf.range(65536, dtype=tf.float32), (256, 256)) % 7
        product = tf.matmul(a, a).numpy()
        row("first product")
        images, labels = tf.random.stateless_uniform((8, 16, 16, 1), (1, 2)), tf.range(8) % 4
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Conv2D(4, 3, activation="relu"),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(4),
            ]
        )
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = tf.keras.optimizers.SGD(0.1)

        def step():
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images))
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            )
            return float(loss)

        losses = [step()]
        row("first training step")
        losses += [step() for _ in range(3)]
        row("three more")
    host = a.numpy() @ a.numpy()
    if not abs(product - host).max() <= 1e-3 * abs(host).max() or not losses[-1] < losses[0]:
        sys.exit(f"wrong values: losses {losses}")
    rows["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(rows))


def run(args, cache):
    libraries = [
        str(p)
        for site in args.venv.glob("lib/python3*/site-packages")
        for p in sorted(site.glob("nvidia/*/lib"))
    ]
    libexec = args.build / "libexec/farcall/ptx-only/bin"
    env = {k: os.environ[k] for k in ("HOME", "LANG", "TMPDIR") if k in os.environ}
    # What `farcall run` sets for frameworks on a device that takes PTX alone.
    env |= {
        "PATH": f"{libexec}:{os.environ['PATH']}",
        "CUDA_ROOT": str(libexec.parent),
        "NVIDIA_TF32_OVERRIDE": "0",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "LD_LIBRARY_PATH": ":".join([str(args.build / "lib/farcall/device"), *libraries]),
        "FARCALL_CPU_CACHE": cache,
    }
    done = subprocess.run(
        [args.venv / "bin/python", __file__, "--child"], env=env, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(
            f"tensorflow ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument(
        "--venv",
        type=pathlib.Path,
        default=pathlib.Path.home() / ".cache/farcall/venvs/tensorflow-2.21",
    )
    args = parser.parse_args()
    args.build = args.build.resolve()
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = run(args, cache), run(args, cache)
    print("| what | cold: clock, processor | warm: clock, processor |\n|---|---|---|")
    for name in cold:
        both = [
            f"{r[name][0]}, {r[name][1]} s" if isinstance(r[name], list) else str(r[name])
            for r in (cold, warm)
        ]
        print(f"| {name} | {both[0]} | {both[1]} |")


if __name__ == "__main__":
    child() if sys.argv[1:] == ["--child"] else main()
