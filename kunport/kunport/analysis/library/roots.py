"""Which class of a file or folder is the model, where nothing names it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from kunport.analysis.library.definitions import classes, read_source
from kunport.analysis.parsing import UnparsableError, parse

_HEADS = ("ForCausalLM", "LMHeadModel")
_MODULES = {"Module", "PreTrainedModel", "GenerationMixin", "LightningModule", "Sequential"}
_EMBEDDINGS = {"Embedding", "embedding"}
_CONFIGURATIONS = ("Config", "Configuration", "Args", "Arguments", "Params", "HParams", "Hyperparameters")

Definition = ast.ClassDef | ast.FunctionDef


def model_classes(files: Iterable[Path]) -> list[str]:
    """Names of the classes that may be the model: those that end as causal language models do, else the roots.

    A root is a module with a token embedding in it that no other module of these files is made of.
    """
    files = list(files)
    heads = [name for path in files for name in classes(read_source(path)) if name.endswith(_HEADS)]
    return heads or _roots(_definitions(files))


def configuration_class(files: Iterable[Path], architecture: str) -> str | None:
    """The class of the first argument of a model's constructor.

    By its annotation or default; else the class that has most of the fields that are read of an argument of that name,
    more than half; else the only class whose name is one that configurations have.
    """
    definitions = _definitions(files)
    classes = {name for name, node in definitions.items() if isinstance(node, ast.ClassDef)}
    plain = sorted(classes - _modules(definitions))
    constructor = _constructor(definitions, architecture)
    if constructor is not None and (arguments := [*constructor.args.args, *constructor.args.kwonlyargs][1:2]):
        hints = [*(each.annotation for each in arguments if each.annotation), *constructor.args.defaults[:1]]
        named = [word for hint in hints for word in _words(hint) if word in classes]
        if named:
            return named[0]
        read = set(fields_read(definitions.values(), arguments[0].arg))
        share = {name: len(read & _fields_of(definitions[name])) for name in plain}
        best = max(plain, key=share.__getitem__, default=None)
        if best is not None and share[best] > len(read) / 2:
            return best
    likely = [name for name in plain if name.endswith(_CONFIGURATIONS)]
    return likely[0] if len(likely) == 1 else None


def fields_read(nodes: Iterable[ast.AST], name: str) -> list[str]:
    """Fields of the object called ``name`` (or ``self.name``) that source reads, in order, but for its methods."""
    every = [each for node in nodes for each in ast.walk(node)]
    called = {id(each.func) for each in every if isinstance(each, ast.Call)}
    found: dict[str, None] = {}
    for each in every:
        match each:
            case ast.Attribute(value=ast.Name(id=holder) | ast.Attribute(attr=holder), attr=field, ctx=ast.Load()):
                if holder == name and id(each) not in called:
                    found.setdefault(field)
            case ast.Subscript(value=ast.Name(id=holder) | ast.Attribute(attr=holder), slice=ast.Constant(value=field)):
                if holder == name and isinstance(field, str):
                    found.setdefault(field)
    return list(found)


def _fields_of(node: ast.AST) -> set[str]:
    """Names that a class binds in its body, or on ``self``."""
    stored = [each for each in ast.walk(node) if isinstance(getattr(each, "ctx", None), ast.Store)]
    names = {each.id for each in stored if isinstance(each, ast.Name)}
    return names | {each.attr for each in stored if isinstance(each, ast.Attribute)}


def _definitions(files: Iterable[Path]) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for path in files:
        try:
            body = parse(read_source(path)).body
        except UnparsableError:
            continue  # the analysis itself names the line, if the file is reached
        found |= {each.name: each for each in body if isinstance(each, Definition)}
    return found


def _roots(definitions: dict[str, Definition]) -> list[str]:
    uses = {name: set(_words(node)) for name, node in definitions.items()}
    modules = _modules(definitions)
    users: dict[str, set[str]] = {name: set() for name in definitions}
    for name, used in uses.items():
        for other in used & definitions.keys():
            users[other].add(name)
    inside = _users_among(uses, modules)
    roots = [name for name in definitions if name in modules and not inside[name] - {name}]
    embedding = _closure([name for name, used in uses.items() if _EMBEDDINGS & used], users)
    return [name for name in roots if name in embedding]


def _users_among(uses: dict[str, set[str]], modules: set[str]) -> dict[str, set[str]]:
    """For each name the modules that it is a part of, itself included: two of them at most, which is as many as count.

    A file may have tens of thousands of classes, each made of all before it.
    """
    found: dict[str, set[str]] = {name: {name} & modules for name in uses}
    pending = [(name, name) for name in modules]
    while pending:
        name, module = pending.pop()
        for part in uses[name] & uses.keys():
            if len(found[part]) < 2 and module not in found[part]:
                found[part].add(module)
                pending.append((part, module))
    return found


def _closure(start: Iterable[str], following: dict[str, set[str]]) -> set[str]:
    """The names, and all that follow from them."""
    found: set[str] = set()
    pending = list(start)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(following.get(name, ()))
    return found


def _words(node: ast.AST) -> list[str]:
    """Names, attributes and (for annotations written as text) strings in a piece of source."""
    words = []
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            words.append(each.id)
        elif isinstance(each, ast.Attribute):
            words.append(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            words.append(each.value)
    return words


def _lineage(definitions: dict[str, Definition], name: str) -> Iterator[str]:
    """The name and those of its bases, theirs included, depth first; each once, for they may go in circles."""
    waiting, seen = [name], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        yield one
        node = definitions.get(one)
        if isinstance(node, ast.ClassDef):
            waiting.extend(reversed([word for base in node.bases for word in _words(base)]))


def _modules(definitions: dict[str, Definition]) -> set[str]:
    """The classes that are modules: by a base that is one, of torch or Transformers, or of these."""
    derived: dict[str, set[str]] = {}
    start = []
    for name, node in definitions.items():
        for base in {word for each in node.bases for word in _words(each)} if isinstance(node, ast.ClassDef) else ():
            if isinstance(definitions.get(base), ast.ClassDef):
                derived.setdefault(base, set()).add(name)
            elif base in _MODULES or base.endswith("PreTrainedModel"):
                start.append(name)
    return _closure(start, derived)


def _constructor(definitions: dict[str, Definition], name: str) -> ast.FunctionDef | None:
    for each in _lineage(definitions, name):
        node = definitions.get(each)
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                return member
    return None
