# SPDX-License-Identifier: Apache-2.0
"""vLLM with decoding steps captured into CUDA graphs, not compiled."""

from subject import check, main, marked
from vllm_engine import NEW, PROMPTS, engine, generates


@check
def captured_steps():
    llm = engine(
        compilation_config={
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": [1, 2, 4],
        }
    )
    generates(llm, temperature=0.0)
    with marked(f"{NEW} greedy tokens of {PROMPTS} prompts"):
        generates(llm, temperature=0.0)


main()
