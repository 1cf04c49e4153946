# SPDX-License-Identifier: Apache-2.0
"""CUDA_VISIBLE_DEVICES as PyTorch reads it and as CUDA gives it to PyTorch: the same, on a server with two devices."""

import json

from support import FaultTest, Server, main, start, told

# How many devices each form leaves.
FORMS = {
    "0": 1,
    "1": 1,
    "0,1": 2,
    "1,0": 2,
    "": 0,
    "-1": 0,
    "7": 0,
    "0,7": 1,
    "0,-1,1": 1,
    "0,0": 0,
    "0, 1": 2,
    "none": 0,
    "@1": 1,
    "@1,@0": 2,
    "@0,@0": 0,
    "@0,0": 1,
    "1,@0": 1,
    "GPU-": 0,
    "@0,GPU-unheard": 1,
}


class Visible(FaultTest):
    def test_pytorch_counts_what_cuda_shows(self):
        with Server(device="dry", environment={"FARCALL_DRY_DEVICES": "2"}) as server:
            client = start(server.url, "visible.py", json.dumps(list(FORMS)))
            self.assertEqual(client.wait(), 0, told(client))
            self.assertEqual(
                json.loads(client.out[-1]),
                {form: [count, count, count > 0] for form, count in FORMS.items()},
            )


if __name__ == "__main__":
    main()
