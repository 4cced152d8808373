"""Says which class the engine really runs: an adapter that was passed over serves tokens all the same.

Start the engine with ``worker_extension_cls=kunport_model_adapters.probe.EXTENSION`` and ask
`ran_classes`. This works for an engine in this process, in one of its own, and with several workers, and
needs no code sent to them. (A server started so, in vLLM's development mode, answers to the
method's name at ``/collective_rpc``.)
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import Any

EXTENSION = "kunport_model_adapters.probe.Probe"


@dataclass(frozen=True, slots=True)
class RanClass:
    """The class of a live model: its module, its name, and the file that it was read from."""

    module: str
    name: str
    file: str


def ran_classes(llm: Any) -> list[RanClass]:
    """The class that each worker of a ``vllm.LLM`` runs, by rank.

    Raises:
        Exception: the engine was not started with the extension; whatever vLLM raises for an unknown method.
    """
    return [RanClass(**answer) for answer in llm.collective_rpc("kunport_ran_class")]


class Probe:
    """What vLLM mixes into its worker class."""

    def kunport_ran_class(self: Any) -> dict[str, str]:
        model = type(self.get_model())
        return asdict(RanClass(model.__module__, model.__qualname__, inspect.getfile(model)))
