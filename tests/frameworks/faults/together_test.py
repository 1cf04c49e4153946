# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside CuPy and beside JAX in one process: memory passed by DLPack, values where the device computes."""

from support import (
    FARCALL,
    PROGRAMS,
    FaultTest,
    Server,
    environment_folder,
    main,
    python,
    run,
    settings,
)


class Together(FaultTest):
    def run_beside(self, other, venv, device):
        folder = environment_folder(venv)
        if folder is None:
            self.skipTest(f"{venv} is not made; make it with: tests/frameworks/venv {venv}")
        site = next(folder.glob("lib/python3*/site-packages"))
        flags = ["--ptx-only"] if device == "cpu" else []
        with Server(device=device) as server:
            command = [
                FARCALL,
                "run",
                "--endpoint",
                server.url,
                *flags,
                "--",
                python(),
                PROGRAMS / "together.py",
                other,
                site,
            ]
            more = {"XLA_FLAGS": "--xla_gpu_autotune_level=0"} if device == "dry" else {}
            # JAX would take three quarters of the device for itself.
            client = run(
                server.url,
                *command,
                environment=settings(XLA_PYTHON_CLIENT_PREALLOCATE="false", **more),
            )
            self.ends_right(client)

    def test_cupy_computes_on_pytorchs_memory(self):
        self.run_beside("cupy", "cupy-14", "cpu")

    def test_cupy_on_the_dry_device(self):
        self.run_beside("cupy", "cupy-14", "dry")

    def test_jax_on_the_cpu_device(self):
        self.run_beside("jax", "jax-0.10", "cpu")

    def test_jax_on_the_dry_device(self):
        self.run_beside("jax", "jax-0.10", "dry")


if __name__ == "__main__":
    main()
