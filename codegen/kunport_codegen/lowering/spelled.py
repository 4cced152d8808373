"""Linear layers that the source spells out: ``addmm`` of a weight that lies turned, or a product with one it turns."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Arg, Ref
from kunport_codegen.lowering.flow import Flow, Op, parent


def spell_linears(flow: Flow) -> None:
    """Make each of them a ``linear``. Weights that lie as ``[inputs, outputs]`` are noted, to be turned in loading."""
    producers, users = flow.producers(), flow.users()
    for op in flow.ops:
        if op.name == "addmm" and len(op.args) == 3 and not op.kwargs:
            bias, x, weight = op.args
            path = _parameter(producers, weight)
            if path.endswith(".weight") and _parameter(producers, bias) == f"{parent(path)}.bias":
                flow.transposed.add(path)
                op.name, op.args = "linear", (x, weight, bias)
        elif op.name == "matmul" and (weight := _turned(flow, producers, users, op.args[1])) is not None:
            op.name, op.args = "linear", (op.args[0], weight)
            _take_bias(flow, producers, users, op)
        elif op.name == "linear" and (len(op.args) < 3 or op.args[2] is None):
            _take_vector(flow, producers, users, op)
    flow.settle()


def _parameter(producers: dict[int, Op], arg: Arg) -> str:
    """The path of a parameter, empty for anything else."""
    source = producers.get(arg.id) if isinstance(arg, Ref) else None
    return str(source.args[0]) if source is not None and source.name == "parameter" else ""


def _turned(flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], arg: Arg) -> Ref | None:
    """The matrix of which an operand is the transpose, if it is the weight of a module that multiplies alone."""
    turn = producers.get(arg.id) if isinstance(arg, Ref) else None
    weight = turn.args[0] if turn is not None and turn.args else None
    path = _parameter(producers, weight)
    if turn is None or not isinstance(weight, Ref) or not path.endswith(".weight"):
        return None
    dims = sorted(unwrap(dim) % 2 for dim in turn.args[1:]) if turn.name in ("transpose", "swapaxes") else []
    alone = all(user.name == turn.name for user in users[weight.id])
    is_matrix = len(flow.graph.parameters[path].shape) == 2
    return weight if is_matrix and alone and (turn.name in ("t", "T", "mT") or dims == [0, 1]) else None


def _take_bias(flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], linear: Op) -> None:
    """What is added to the product alone, if it is the module's own bias, is part of the layer."""
    addition, bias = _added(users, linear)
    weight = _parameter(producers, linear.args[1])
    if addition is not None and bias is not None and _parameter(producers, bias) == f"{parent(weight)}.bias":
        linear.args = (*linear.args, bias)
        flow.aliases[addition.results[0]] = linear.results[0]


def _take_vector(flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], linear: Op) -> None:
    """A vector that is repeated for all tokens and added to the product alone is its bias, whatever module holds it."""
    addition, added = _added(users, linear)
    repeat = producers.get(added.id) if isinstance(added, Ref) else None
    path = _parameter(producers, repeat.args[0]) if repeat is not None and repeat.name == "expand" else ""
    weight = _parameter(producers, linear.args[1])
    if addition is None or repeat is None or not path or not weight or path in flow.biases:
        return
    sizes = [unwrap(size) for size in flow.graph.parameters[path].shape]
    if sizes == [unwrap(flow.graph.parameters[weight].shape[0])] and len(users[repeat.args[0].id]) == 1:
        flow.biases[path] = parent(weight)
        linear.args = (*linear.args[:2], repeat.args[0])
        flow.aliases[addition.results[0]] = linear.results[0]


def _added(users: dict[int, list[Op]], linear: Op) -> tuple[Op | None, Arg]:
    """The addition that alone reads a product, and what it adds."""
    after = users.get(linear.results[0], [])
    if len(after) != 1 or after[0].name != "add" or after[0].kwargs or len(after[0].args) != 2:
        return None, None
    return after[0], next((arg for arg in after[0].args if arg != Ref(linear.results[0])), None)
