"""The labels of embedding and head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kunport.oracle.labels import Scope
from kunport.oracle.norm_form import NormForm
from kunport.oracle.structure import Layer
from kunport.oracle.watch import Change, Record, close, watch

_AMPLIFIED = 1e5


class Vocabulary:
    """Embedding and head of a built model, run on ``tokens`` ``[1, sequence]``."""

    def __init__(self, model: nn.Module, tokens: Tensor, record: Record, norms: dict[nn.Module, NormForm]) -> None:
        self.model, self.tokens, self.record, self.norms = model, tokens, record, norms
        self.embedding: nn.Module = model.get_input_embeddings()  # type: ignore[operator]
        self.head: nn.Module | None = model.get_output_embeddings()  # type: ignore[operator]

    def run(self, changes: dict[nn.Module, Change], tokens: Tensor | None = None) -> tuple[Record, Tensor]:
        """What runs, and the logits ``[sequence, vocabulary]``, with changed insides."""
        tokens = self.tokens if tokens is None else tokens
        with torch.no_grad(), watch(self.model, tokens.shape[-1], changes) as record:
            logits = self.model(input_ids=tokens, use_cache=False).logits
        return record, logits[0]

    def label_embedding(self, first: Layer, scope: Scope) -> str | None:
        """Label scale, norm and positions of the embedding; return the positions."""
        found = self._output(self.record, self.embedding), first.call.input
        made, stream = found
        if made is None or stream is None or made.shape != stream.shape:
            scope.skip("embedding", "the first layer does not read what the embedding makes")
            return None
        norm = next(
            (
                call
                for call in self.record.calls
                if call.module in self.norms
                and call.result is not None
                and call.ended < first.call.began
                and call.result.shape == stream.shape
                and close(call.result, stream, 1e-6)
            ),
            None,
        )
        scope.label("embedding.norm", norm is not None)
        if norm is not None and norm.input is not None:
            stream = norm.input
        doubled, _ = self.run({self.embedding: lambda out: out * 2})
        moved = self._stream(doubled, first, norm is not None)
        if moved is None:
            return None
        slope = _factor(moved - stream, made)
        weight = getattr(self.embedding, "weight", None)
        looked_up = None if weight is None else nn.functional.embedding(self.tokens, weight.detach())
        inner = None if looked_up is None or looked_up.shape != made.shape else _factor(made, looked_up)
        if slope is None or inner is None:
            scope.skip("embedding.scale", "what the first layer reads is no multiple of the embedding")
            return None
        scope.label("embedding.scale", slope * inner)
        positions = self._positions(stream - slope * made, first)
        scope.label("embedding.positions", positions)
        return positions

    def _stream(self, record: Record, first: Layer, normed: bool) -> Tensor | None:
        layer = next(call for call in record.calls if call.module is first.module)
        if not normed:
            return layer.input
        before = [call for call in record.calls if call.module in self.norms and call.ended < layer.began]
        return before[-1].input

    def _positions(self, rest: Tensor, first: Layer) -> str | None:
        if float(rest.abs().max()) < 1e-5:
            return None
        tables = [
            call
            for call in self.record.calls
            if isinstance(call.module, nn.Embedding)
            and call.module is not self.embedding
            and call.ended < first.call.began
        ]
        learned = any(
            list(call.module.parameters())
            and call.result is not None
            and close(call.result.expand(rest.shape), rest, 1e-4)
            for call in tables
        )
        return "learned" if learned else "sinusoidal"

    def label_head(self, scope: Scope) -> None:
        """Label tying, bias, scale and softcap of the head."""
        if self.head is None:
            scope.skip("head", "the model names no head")
            return
        weights = [getattr(module, "weight", None) for module in (self.embedding, self.head)]
        scope.label("head.tied", weights[0] is not None and weights[0] is weights[1])
        scope.label("head.bias", getattr(self.head, "bias", None) is not None)
        record, logits = self.run({})
        made = self._output(record, self.head)
        _, large = self.run({self.head: lambda out: out * _AMPLIFIED})
        if made is None or made.numel() != logits.numel():
            scope.skip("head.scale", "the logits are not what the head makes")
            return
        top = float(large.abs().max())
        capped = float((large.abs() > 0.999 * top).float().mean()) > 0.5
        if capped:
            scope.label("head.softcap", top)
            logits = top * torch.atanh(logits / top)
        elif close(large, logits * _AMPLIFIED):
            scope.label("head.softcap", None)
        else:
            scope.skip("head.softcap", "large logits are neither capped nor linear")
            return
        after, before = _factor(logits, made[0]), self._before_head(record)
        if after is None or before is None:
            scope.skip("head.scale", "the logits are no multiple of the head's output")
        else:
            scope.label("head.scale", after * before)

    def _before_head(self, record: Record) -> float | None:
        """What multiplies the last norm's output before the head."""
        head = next(call for call in record.calls if call.module is self.head)
        last = [call for call in record.calls if call.module in self.norms and call.ended < head.began]
        read, made = head.input, last[-1].result if last else None
        if read is None or made is None or read.numel() != made.numel():
            return None
        return _factor(read.reshape(made.shape), made)

    def _output(self, record: Record, module: nn.Module) -> Tensor | None:
        return next((call.result for call in record.calls if call.module is module), None)


def _factor(tensor: Tensor, unit: Tensor) -> float | None:
    """The number that makes ``tensor`` of ``unit``, None where none does."""
    factor = float((tensor * unit).sum() / unit.pow(2).sum())
    return factor if close(tensor, factor * unit, 1e-4) else None
