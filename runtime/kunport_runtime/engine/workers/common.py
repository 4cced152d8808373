"""What kunport adds to vLLM's worker, whatever the device."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kunport_runtime.engine.layers.naming import name_layers
from kunport_runtime.engine.layers.products import replace_products
from kunport_runtime.engine.layers.registration import register_layers
from kunport_runtime.engine.probing import probe
from kunport_runtime.engine.settings import reference_only
from kunport_runtime.operators.account_files import VARIABLE as ACCOUNT_VARIABLE
from kunport_runtime.operators.account_files import write_account
from kunport_runtime.operators.accounting import ledger
from kunport_runtime.operators.dispatch import dispatcher
from kunport_runtime.operators.policy import REFERENCE_ONLY
from kunport_runtime.operators.profile_files import write_profile
from kunport_runtime.operators.timing import VARIABLE as PROFILE_VARIABLE


class WorkerAdditions:
    """Mixed in before vLLM's worker class."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # Before a model is built: vLLM looks a layer's replacement up when it makes one.
        register_layers()
        if reference_only():
            dispatcher.use(REFERENCE_ONLY)
        super().__init__(*arguments, **options)

    def load_model(self: Any, **options: Any) -> None:
        super().load_model(**options)  # type: ignore[misc]
        model = self.get_model()
        name_layers(model)
        replace_products(model)
        probe(model, self.device, self.model_config.dtype)

    def shutdown(self: Any) -> None:
        """Leave the account of operators first: vLLM ends a process that takes its time."""
        if folder := os.environ.get(ACCOUNT_VARIABLE):
            write_account(ledger, Path(folder))
        if dispatcher.timer is not None and (folder := os.environ.get(PROFILE_VARIABLE)):
            memory = self.kunport_memory() if hasattr(self, "kunport_memory") else []
            write_profile(dispatcher.timer, Path(folder), memory)
        super().shutdown()  # type: ignore[misc]

    def kunport_process(self) -> int:
        """The id of this worker's process (``collective_rpc``)."""
        return os.getpid()

    def kunport_operators(self, clear: bool = False) -> list[dict[str, Any]]:
        """What ran in this worker: a dictionary for each record of the account (``collective_rpc``)."""
        records = [asdict(record) for record in ledger.records()]
        if clear:
            ledger.clear()
        return records
