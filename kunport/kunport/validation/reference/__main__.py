"""``python -m kunport.validation.reference``: run the reference and write down what it computes.

The job: ``checkpoint``, ``trust_remote_code`` (whether to run its code), ``prompts`` (lists of token ids), ``tokens``
(to generate), ``output`` (folder for `Expected`) and ``graph`` (a pickled model graph that kunport made, or null).
"""

from __future__ import annotations

from pathlib import Path

from kunport.validation.processes.child import Channel


def main() -> None:
    channel = Channel()
    job = channel.receive()
    output = Path(job["output"])
    with channel.stage("import") as facts:
        import torch
        import transformers

        from kunport.validation.reference.forward import continue_greedily, prompt_logits
        from kunport.validation.reference.graph import check_graph
        from kunport.validation.reference.load import load, parameter_count

        facts["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    with channel.stage("load") as facts:
        model, facts["unused"] = load(Path(job["checkpoint"]), trust_remote_code=job["trust_remote_code"])
        facts["parameters"] = parameter_count(model)
        facts["detail"] = f"{type(model).__name__}, {facts['parameters'] / 1e6:.1f} M parameters"
    with channel.stage("prompts") as facts:
        logits = []
        for prompt in job["prompts"]:
            logits.append(prompt_logits(model, prompt))
            channel.progress("prompts", f"{len(logits)} of {len(job['prompts'])} prompts")
        facts["detail"] = f"{sum(len(prompt) for prompt in job['prompts'])} positions"
    if job["graph"] is not None:
        with channel.stage("graph") as facts:
            facts |= check_graph(Path(job["graph"]), Path(job["checkpoint"]), model, job["prompts"], logits)
            facts["detail"] = f"relative error {facts['max_relative']:.1e}"
            if facts["readings"] > 1:
                facts["detail"] += f", read {facts['readings']} times: the source decides by the length"
    with channel.stage("greedy") as facts:
        for request, prompt in enumerate(job["prompts"]):
            continue_greedily(model, prompt, logits[request], job["tokens"]).save(output, request)
            channel.progress("greedy", f"{request + 1} of {len(job['prompts'])} prompts")
        facts["detail"] = f"{job['tokens']} tokens each"
    channel.done()


if __name__ == "__main__":
    main()
