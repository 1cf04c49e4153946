# SPDX-License-Identifier: Apache-2.0
"""PyTorch out of memory, by each of its allocators: CUDA's own error, the program goes on, the bytes are right."""

from support import FaultTest, Server, main, start


class OutOfMemory(FaultTest):
    def refused_and_right(self, device, configuration):
        with Server("--mem", "1GiB", device=device) as server:
            client = start(server.url, "memory.py", PYTORCH_CUDA_ALLOC_CONF=configuration)
            self.ends_right(client)
            self.assertFalse([line for line in client.err if " error" in line], client.err)


for name, configuration in {
    "caching": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}.items():
    for device in ("dry", "cpu"):

        def test(self, device=device, configuration=configuration):
            self.refused_and_right(device, configuration)

        setattr(OutOfMemory, f"test_the_{name}_allocator_on_the_{device}_device", test)

if __name__ == "__main__":
    main()
