"""The residual stream of a layer: which branches are added to it, and in what order things happen.

The order is written as the field writes skeletons: ``r`` takes the residual, ``N`` is a norm, ``A`` attention or
another mixer of tokens, ``M`` an MLP or experts, ``+`` an addition. What happens inside of a mixer or an MLP is not
part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Norm, Number
from kunport_codegen.graph import Location, Node, Ref, refs
from kunport_codegen.recognition.index import combine, number

from kunport.variants.entry import entry
from kunport.variants.model import Layer, Model
from kunport.variants.projections import projection

_UNCHANGED = frozenset(("to", "type_as", "reshape", "dropout", "item", "squeeze", "unsqueeze"))


@dataclass(slots=True)
class Stream:
    """What the residual stream of a layer goes through.

    ``events`` are (place in the order of execution, letter); ``factors`` the numbers that branches are multiplied by,
    ``multipliers`` their product for each branch, ``learned`` whether parameters are among them; ``stretched`` whether
    the stream itself is multiplied; ``where`` the line of the first addition; ``lost`` why the stream could not be
    followed; ``explained`` the additions and the products.
    """

    where: Location
    events: list[tuple[float, str]] = field(default_factory=list)
    factors: list[Number] = field(default_factory=list)
    multipliers: list[float] = field(default_factory=list)
    learned: bool = False
    stretched: bool = False
    lost: str = ""
    explained: set[int] = field(default_factory=set)

    @property
    def order(self) -> str:
        """The events in order, each once."""
        return " ".join(letter for _, letter in sorted(dict.fromkeys(self.events)))


def stream(layer: Layer) -> Stream:
    """The residual stream of a layer."""
    if "stream" not in layer.memo:
        layer.memo["stream"] = _Follower(layer).run()
    found: Stream = layer.memo["stream"]
    return found


class _Follower:
    """Follows the stream from the layer's input: ``values`` are the tensors that it was."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.model, self.index = layer, layer.model, layer.model.index
        self.norms = layer.model.norm_of_output
        self.values = [found] if (found := entry(layer)) is not None else []
        self.found = Stream(layer.frame.where)
        self.taken, self.added = set[int](), set[int]()
        self.mixing = {node for fact in layer.attentions for node in fact.nodes}
        self.mixing |= {node for fact in layer.facts.get("Mixer", []) for node in fact.nodes}
        self.mixing |= {node.id for node in layer.unread_mixing if not self.mixing or node.op != "conv1d"}
        self.acting = {node for fact in layer.facts.get("Experts", []) for node in fact.nodes}
        self.acting |= {fact.output for fact in layer.facts.get("Activation", [])}

    def run(self) -> Stream:
        if not self.values:
            self.found.lost = "the layer's input and output are not of one shape"
            return self.found
        for node in self.layer.nodes:
            if node.op == "add":
                self._addition(node)
        if len(self.values) < 2:
            self.found.lost = "nothing is added to the layer's input"
        else:
            self._end()
        return self.found

    def _addition(self, add: Node) -> None:
        operands = [self._strip(self.index.producer(operand)) for operand in add.args[:2]]
        for kept, other in (operands, operands[::-1]):
            if kept is None or other is None or other.id in self.values:
                continue
            kept = self._unscaled(kept)
            if kept.id in self.values and (path := self.model.parameter(Ref(other.id))) is not None:
                self._bias(add, kept, path)
                return
            if kept.id in self.values or (self._normed(kept.id) is not None and self._reads(other)):
                if kept.id not in self.values:
                    self.values.append(kept.id)
                    self._event(kept, "N")
                read = [self._branch(branch) for branch in self._summands(other)]
                values = set().union(*read) or {kept.id}
                for value in values:
                    self._take(value)
                if kept.id != self.values[-1]:
                    self.found.lost = f"a sum leaves out what was added before it ({add.where})"
                if kept.id not in values:
                    self._put_off(kept, add)
                self._event(add, "+")
                self.found.explained.add(add.id)
                if len(self.values) == 1 or self.found.where == self.layer.frame.where:
                    self.found.where = add.where
                self.values.append(add.id)
                return

    def _bias(self, add: Node, kept: Node, path: str) -> None:
        """A parameter is added to the stream: a bias that the layer of a branch has handed on."""
        made = [each for node in self.layer.nodes if (each := projection(self.model, node)) is not None]
        if not any(each.bias and path.rpartition(".")[0] == each.owner for each in made) or kept.id != self.values[-1]:
            self.found.lost = f"a parameter is added to the stream, and is no branch's bias ({add.where})"
        self.found.explained.add(add.id)
        self.values.append(add.id)

    def _put_off(self, earlier: Node, later: Node) -> None:
        """A branch beside the one that was added before it: both are added at the end, in whatever order."""
        place, letter = float(self.index.order[earlier.id]), "+"
        if (place, letter) in self.found.events:
            self.found.events.remove((place, letter))
            self.found.events.append((self.index.order[later.id] - 0.25, letter))

    def _delay(self, sum_before: Node, add: Node) -> None:
        """An addition counts where the next one is, as if all branches were added together."""
        event = (float(self.index.order[sum_before.id]), "+")
        if event in self.found.events:
            self.found.events.remove(event)
            self.found.events.append((self.index.order[add.id] - 0.5, "+"))

    def _reads(self, node: Node) -> bool:
        """Whether a branch comes from the stream by more than a norm: it holds a product with a parameter."""
        return any(projection(self.model, each) is not None for each in self._inside(node))

    def _take(self, value: int) -> None:
        """A branch reads a value of the stream: there the residual is taken, once for each value."""
        if value not in self.taken:
            self.taken.add(value)
            self.found.events.append((self._start(value), "r"))

    def _first(self) -> float:
        return float(self.index.order[self.layer.nodes[0].id]) - 1

    def _start(self, identifier: int) -> float:
        """Just after the tensor was made, or the layer begins."""
        if identifier == self.values[0]:
            return self._first()
        return self.index.order[identifier] + 0.5

    def _event(self, node: Node, letter: str) -> None:
        self.found.events.append((float(self.index.order[node.id]), letter))

    def _summands(self, node: Node) -> list[Node]:
        """The branches of a sum; a sum with parts of one MLP or mixer is one branch."""
        if node.op == "add" and self.layer.place(node.frame) == "":
            parts = [self._strip(self.index.producer(operand)) for operand in node.args[:2]]
            if all(part is not None and self._reads(part) for part in parts):
                self._event(node, "+")
                self.found.explained.add(node.id)
                return [each for part in parts if part is not None for each in self._summands(part)]
        return [node]

    def _branch(self, root: Node) -> set[int]:
        """Norms and factors after what a branch computes, then that, then norms before it; the values it reads."""
        node, factor, undone = root, 1.0, False
        if root.id in self.added:
            self.found.lost = f"a branch is added twice ({root.where})"
        self.added.add(root.id)
        while True:
            if (norm := self.norms.get(node.id)) is not None and self._normed(node.id) is None:
                undone = True
                inner = self._strip(self.index.nodes.get(norm.input))
                part = self.layer.part(node.frame)
                if not part or inner is None or part != self.layer.part(inner.frame):
                    self._event(node, "N")
            elif not undone and (product := scaled(self.model, node)) is not None:
                factor *= float(unwrap(product[1]))
                self.found.factors.append(product[1])
                self.found.explained.add(node.id)
                inner = self._strip(product[0])
            elif (inner := self._learned(node)) is not None:
                self.found.learned = True
            else:
                break
            if inner is None:
                break
            node = inner
        self.found.multipliers.append(factor)
        if (value := self._normed(node.id)) is not None:
            self._event(node, "N")
            return {value}
        inside, read = list(self._inside(node)), set[int]()
        written: set[tuple[str, int]] = set()
        for each in inside:
            if each.id not in self.norms:
                read.update(value for value in self.model.reads(each) if value in self.values)
            elif (value := self._normed(each.id)) is not None:
                again = (self.norms[each.id].weight or "", value)
                if again not in written:  # a source that calls one norm for each of its readers has one norm
                    self._event(each, "N")
                read.add(value)
                written.update({again} if again[0] else ())
            elif (first := self._normed_first(each.id)) is not None:
                self._event(each, "N")
                if self._read_elsewhere(first, self.norms[each.id]):
                    self.found.lost = f"a branch normalises again what others read ({each.where})"
        self._parts(node, inside)
        return read

    def _parts(self, root: Node, inside: list[Node]) -> None:
        """What a branch does: one thing as a rule, several where parts of the layer feed each other."""
        mixing = {self.layer.part(each.frame) for each in inside if each.id in self.mixing} - {""}
        acting = {self.layer.part(each.frame) for each in inside if each.id in self.acting} - mixing - {""}
        if mixing and len(mixing | acting) > 1:
            for part in mixing | acting:
                last = max((each for each in inside if self.layer.part(each.frame) == part), key=lambda each: each.id)
                self._event(last, "A" if part in mixing else "M")
        else:
            self._event(root, "A" if any(each.id in self.mixing for each in inside) else "M")

    def _inside(self, root: Node) -> Iterable[Node]:
        """The nodes of a branch, back to values of the stream."""
        pending, seen = [root.id], set[int]()
        while pending:
            node = self.index.nodes.get(pending.pop())
            if node is None or node.id in seen or node.id in self.values or self.model.layer_of(node) is not self.layer:
                continue
            seen.add(node.id)
            yield node
            if node.id in self.norms:
                if self._normed(node.id) is None:
                    pending.append(self.norms[node.id].input)
            else:
                pending.extend(self.model.reads(node))
                if node.body is not None:
                    pending.extend(each.id for each in node.body.nodes)

    def _end(self) -> None:
        """A norm of the stream itself after the last addition; the layer's result has to be the stream."""
        last = self.index.nodes.get(next(refs(self.layer.frame.output), -1))
        stripped = self._strip(last)
        node = self._unscaled(stripped) if stripped is not None else None
        if node is not None and node.id not in self.values and self._normed(node.id) is not None:
            self._event(node, "N")
        elif node is None or node.id != self.values[-1]:
            self.found.lost = self.found.lost or "the layer's result is not its input with branches added"

    def _normed(self, output: int) -> int | None:
        """The value of the stream that a norm reads; None for what is no norm, or of something else."""
        norm = self.norms.get(output)
        node = self._strip(self.index.nodes.get(norm.input)) if norm is not None else None
        return node.id if node is not None and node.id in self.values else None

    def _normed_first(self, output: int) -> Node | None:
        """The norm of the stream whose result a norm reads; None for what is no norm, or of something else."""
        norm = self.norms.get(output)
        node = self._strip(self.index.nodes.get(norm.input)) if norm is not None else None
        again = node is not None and (self._normed(node.id) is not None or self._normed_first(node.id) is not None)
        return node if again else None

    def _read_elsewhere(self, first: Node, norm: Norm) -> bool:
        """Whether anything but a norm reads what it reads, as itself or through operators that leave its elements."""
        node, reader = self.index.nodes[norm.input], set(norm.nodes)
        while not (others := self._users(node) - reader) and node.id != first.id:
            node, reader = self.index.nodes[self.model.reads(node)[0]], {node.id}
        return bool(others)

    def _users(self, node: Node) -> set[int]:
        return set(self.index.users.get(node.id, ())) & self.index.live

    def _unscaled(self, node: Node) -> Node:
        """A value of the stream that is multiplied before more is added to it; any other node itself."""
        start, turned, passed = node, False, list[int]()
        while node.id not in self.values and node.id not in self.norms:
            product = scaled(self.model, node)
            inner = self._strip(product[0]) if product is not None else self._learned(node)
            if inner is None:
                break
            turned = turned or product is None or unwrap(product[1]) != 1
            passed.append(node.id)
            node = inner
        kept = node.id in self.values or self._normed(node.id) is not None
        self.found.stretched = self.found.stretched or (turned and kept)
        self.found.explained.update(passed if kept else ())
        return node if kept else start

    def _learned(self, node: Node) -> Node | None:
        """The tensor that is multiplied by a parameter, which is no norm's."""
        if node.op != "mul" or node.id in self.norms:
            return None
        for one, other in (node.args, node.args[::-1]):
            if self.model.parameter(other) is not None:
                self.found.explained.add(node.id)
                return self._strip(self.index.producer(one))
        return None

    def _strip(self, node: Node | None) -> Node | None:
        """The tensor behind operators that leave elements as they are, up to a norm or a value of the stream."""
        while node is not None and node.id not in self.norms and node.id not in self.values and node.op in _UNCHANGED:
            behind = self.index.producer(node.args[0])
            if behind is None:
                return None
            node = behind
        return node


def scaled(model: Model, node: Node) -> tuple[Node, Number] | None:
    """The tensor and the factor of a product or quotient with a number, also where a tensor holds the number."""
    if node.op not in ("mul", "div") or len(node.args) != 2:
        return None
    for one, other in (node.args, node.args[::-1]):
        tensor, holder = model.index.producer(one), model.index.strip(model.index.producer(other), "to")
        value = number(holder.args[0] if holder is not None and holder.op == "tensor" else other)
        if tensor is None or tensor.op == "tensor" or value is None:
            continue
        if node.op == "mul":
            return tensor, value
        return (tensor, combine("div", 1.0, value)) if one is node.args[0] else None
    return None
