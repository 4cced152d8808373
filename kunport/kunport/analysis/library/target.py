"""What there is to analyse."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """A model's source and configuration.

    Attributes:
        architecture: the class to analyse, such as ``Olmo2ForCausalLM``.
        model_type: the configuration's, such as ``olmo2``; "" for custom code that names none.
        modeling: the file that defines the architecture.
        module: the dotted name of that file below ``root``, which relative imports start from
            (``transformers.models.olmo2.modeling_olmo2``). A custom file's has no package: its relative imports
            are found in ``root`` itself.
        root: the folder that holds the top-level package, or the folder of a custom file.
        config_class: the configuration's class, such as ``Olmo2Config``; None where the source names none.
        config_file: the file that defines it.
        raw_config: what ``config.json`` says, special floats decoded; {} for the class's defaults.
        checkpoint: the folder that holds the weights, None without.
    """

    architecture: str
    model_type: str
    modeling: Path
    module: str
    root: Path
    config_class: str | None
    config_file: Path | None
    raw_config: dict[str, Any] = field(default_factory=dict)
    checkpoint: Path | None = None

    @property
    def custom(self) -> bool:
        """Whether the modeling code lies outside the installed Transformers."""
        return not self.module.startswith("transformers.")
