# SPDX-License-Identifier: Apache-2.0
"""vLLM as it comes: the model compiled by Inductor, pieces of it and decoding steps captured into CUDA graphs."""

from subject import check, main, marked
from vllm_engine import NEW, PROMPTS, engine, generates


@check
def compiled_and_captured():
    llm = engine(compilation_config={"cudagraph_capture_sizes": [1, 2, 4]})
    generates(llm, temperature=0.0)
    with marked(f"{NEW} greedy tokens of {PROMPTS} prompts"):
        generates(llm, temperature=0.0)


main()
