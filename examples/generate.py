"""Generates text with plain vLLM. With KUNPORT_ADAPTER_PATH in the environment, through the adapter that it names.

KUNPORT_ADAPTER_PATH=adapters python examples/generate.py CHECKPOINT PROMPT ...
"""

import argparse

from vllm import LLM, SamplingParams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("prompt", nargs="+")
    parser.add_argument("--tokens", type=int, default=12)
    arguments = parser.parse_args()

    engine = LLM(arguments.checkpoint, dtype="float32", enforce_eager=True, max_model_len=512)
    sampling = SamplingParams(temperature=0, max_tokens=arguments.tokens)
    for result in engine.generate(arguments.prompt, sampling, use_tqdm=False):
        print(f"{result.prompt!r} -> {result.outputs[0].text!r}")


if __name__ == "__main__":
    main()
