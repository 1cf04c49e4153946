# SPDX-License-Identifier: Apache-2.0
"""vLLM without graphs or compilation: greedy and sampled tokens of several prompts at once."""

from subject import check, main, marked
from vllm_engine import NEW, PROMPTS, engine, generates


@check
def eager():
    llm = engine(enforce_eager=True)
    generates(llm, temperature=0.0)
    generates(llm, temperature=0.8, top_k=20, top_p=0.9)
    with marked(f"{NEW} greedy tokens of {PROMPTS} prompts"):
        generates(llm, temperature=0.0)


main()
