"""The verdict in one sentence, and the figures that lead to it."""

from __future__ import annotations

from kunport.text import count, scientific
from kunport.validation.report import Report


def headline(report: Report) -> str:
    """What the verdict says, as one sentence."""
    subject = "The adapter" if report.adapter is not None else "vLLM's own class"
    if report.passed and report.modules is not None:
        return (
            f"{subject} computes what Hugging Face computes: in {report.dtype} its logits are "
            f"{report.modules.ratio:.2f} times as far off as Hugging Face's own ({report.modules.allowed:g} is "
            f"allowed), and {count(report.modules.points)} places in its modules are within theirs."
        )
    if report.passed:
        return (
            f"{subject} computes what Hugging Face computes: {count(compared(report))} log-probabilities agree within "
            f"{scientific(report.max_error)} nats ({report.limits.log_probability:.0e} is allowed), "
            f"and {greedy(report)} greedy tokens are the same."
        )
    reasons = "one reason" if len(report.reasons) == 1 else f"{len(report.reasons)} reasons"
    return f"{subject} is not to be trusted, for {reasons}."


def greedy(report: Report) -> str:
    """``240 of 240`` over all batches."""
    equal = sum(batch.greedy_equal for batch in report.batches)
    return f"{count(equal)} of {count(sum(batch.greedy_total for batch in report.batches))}"


def compared(report: Report) -> int:
    """Log-probabilities compared, over all batches."""
    return sum(batch.compared for batch in report.batches)


def prompts(report: Report) -> str:
    """What the prompts are."""
    return {"text": "text", "random": "random token ids", "given": "prompts of the caller's"}[report.prompt_kind]


def scope(report: Report) -> list[str]:
    """What the verdict does not say: general limits, then those of this run."""
    device = report.hardware.get("device", "CPU")
    general = [
        f"Everything ran on a {device} in {report.dtype}. Nothing was measured on a Kunlun XPU.",
        "Memory and speed are this machine's; the engine ran eager, with prefix caching off, and pages of "
        f"{report.engine.page_size if report.engine else 'few'} tokens.",
    ]
    if report.prompt_kind == "text":
        general.append(
            "The prompts are text. On other input, random token ids for one, activations and rounding can be larger."
        )
    if report.top is not None:
        general.append(
            f"Of each position, the engine's {report.top} most likely tokens and the prompt's own were compared, "
            "not the whole vocabulary."
        )
    if report.graph is None:
        general.append("The model graph was not executed against the model.")
    return general + report.notes
