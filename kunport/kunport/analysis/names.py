"""Names of Python modules: what each file binds, followed across imports, evaluated when first asked for.

Nothing is imported. A dotted name is looked for in the intrinsics first, then as a file below the source
roots, and stands for an opaque value where it is neither.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import PACKAGES, external
from kunport.analysis.patching import binds_by_text, patched
from kunport.analysis.source import Chunk, Root, SourceFile, open_source
from kunport.analysis.values import NativeClass, Opaque, PythonModule, Value


class Evaluator(Protocol):
    """What names need of the interpreter."""

    def run(self, statement: ast.stmt, scope: Scope) -> Any: ...
    def define_class(self, node: ast.ClassDef, scope: Scope) -> Value: ...
    def decide(self, test: ast.expr, scope: Scope) -> bool | None: ...


_SETTERS = ("setattr", "delattr")
_DECORATOR = re.compile(r"@\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Import:
    """A name bound by an import: of ``module`` itself, or of ``name`` in it."""

    module: str
    name: str | None


# A chunk is a class, a function or an assignment that has not been parsed yet.
Binding = Import | Chunk | ast.stmt


class Namespace:
    """The top level of one file."""

    def __init__(self, file: SourceFile, dotted: str, package: str, names: Names, custom: bool = False) -> None:
        self.file = file
        self.dotted = dotted
        self.package = package
        self.names = names
        self.scope = Scope(namespace=self)
        self._values: dict[str, Value] = {"__name__": dotted, "__file__": file.name}
        self._pending: set[str] = set()
        self._bindings: dict[str, list[Binding]] | None = None
        self._stars: list[str] = []
        self._effects: list[tuple[frozenset[str], str | ast.stmt]] = []
        self._settled = not custom
        self.custom = custom
        self._patches: list[str] = []
        self._hidden = ""

    def get(self, name: str) -> Value:
        """The value of a name.

        Raises:
            KeyError: the file does not bind it.
            NotUnderstoodError: what it is bound to cannot be evaluated.
        """
        self.settle()
        if name in self._values:
            return self._values[name]
        if name in self._pending:
            raise NotUnderstoodError(f"{name} depends on itself in {self.file.name}")
        if (value := self.names.external(f"{self.dotted}.{name}")) is not None:
            return value
        bindings = self.bindings().get(name)
        if bindings is None:
            return self._from_stars(name)
        if self._hidden and not isinstance(bindings[0], Import):
            return Opaque(name, f"bound in a file whose names {self._hidden}")
        self._pending.add(name)
        try:
            self._bind(name, bindings[0])
        finally:
            self._pending.discard(name)
        for binding in bindings[1:]:
            self._bind(name, binding)
        return self._values[name]

    def settle(self) -> None:
        """Does what importing a custom file does besides binding names: it calls functions, and decorators register.

        Only what the custom code itself defines counts; what that fails at is left to whoever needs it.
        """
        if self._settled:
            return
        self._settled = True
        bindings = self.bindings()
        imports = [each[0] for each in bindings.values() if isinstance(each[0], Import)]
        modules = {module for each in imports for module in (each.module, f"{each.module}.{each.name}")}
        own = {name for name, each in bindings.items() if not isinstance(each[0], Import)}
        for name, each in bindings.items():
            if isinstance(each[0], Import) and self.names.is_custom(each[0].module):
                own.add(name)
        for module in sorted(modules | set(self._stars)):
            if self.names.is_custom(module) and (namespace := self.names.namespace(module)) is not None:
                namespace.settle()
        for path in self._patches:
            self._patch(path)
        for roots, effect in self._effects:
            if roots & own:
                with contextlib.suppress(NotUnderstoodError, RaisedError):
                    if isinstance(effect, str):
                        self.get(effect)
                    else:
                        self.names.evaluator.run(effect, self.scope)

    def _patch(self, path: str) -> None:
        """Runs the statements that set an attribute of an imported module; what they set is not known if that fails."""
        root, _, rest = path.partition(".")
        bindings = self.bindings().get(root, [])
        if not bindings or not isinstance(imported := bindings[0], Import):
            return
        try:
            self.get(root)
        except (NotUnderstoodError, RaisedError):
            followed = False
        else:
            followed = not rest
        if not followed:
            parts = (imported.module, imported.name, rest)
            self.names.replace(".".join(part for part in parts if part), f"replaced in {self.file.name}")

    def set(self, name: str, value: Value) -> None:
        self._values[name] = value

    def has(self, name: str) -> bool:
        return name in self._values or name in self.bindings()

    def _bind(self, name: str, binding: Binding) -> None:
        if isinstance(binding, Import):
            # `from . import part` in a package's own file means the file beside it.
            inside = binding.module == self.dotted and binding.name is not None
            module, part = (f"{self.dotted}.{binding.name}", None) if inside else (binding.module, binding.name)
            self._values[name] = self.names.resolve(module, part)
        elif isinstance(binding, Chunk):
            for statement in self.file.statements(binding.first, binding.last):
                self._bind(name, statement)
        elif isinstance(binding, ast.ClassDef):
            self._values[name] = self.names.evaluator.define_class(binding, self.scope)
        else:
            self.names.evaluator.run(binding, self.scope)

    def _from_stars(self, name: str) -> Value:
        for module in self._stars:
            namespace = self.names.namespace(module)
            if namespace is not None and namespace.has(name):
                return namespace.get(name)
        raise KeyError(name)

    def bindings(self) -> dict[str, list[Binding]]:
        """Name -> the statements that bind or change it, in order."""
        if self._bindings is None:
            self._bindings = {}
            for chunk in self.file.chunks:
                if chunk.kind in ("class", "def"):
                    self._bindings[chunk.name] = [chunk]
                    if roots := self._decorators(chunk):
                        self._effects.append((roots, chunk.name))
                elif chunk.kind == "assign":
                    self._add(chunk.name, chunk)
                else:
                    self._note_all(chunk)
        return self._bindings

    def _decorators(self, chunk: Chunk) -> frozenset[str]:
        """The names that the decorators of a definition start from."""
        roots: list[str] = []
        for line in self.file.lines[chunk.first - 1 : chunk.last]:
            if match := _DECORATOR.match(line):
                roots.append(match.group(1))
            elif line.startswith(("class", "def", "async")):
                break
        return frozenset(roots)

    def _note_all(self, chunk: Chunk) -> None:
        for statement in self.file.statements(chunk.first, chunk.last):
            self._note(statement)

    def _note(self, statement: ast.stmt, add: Callable[[str, Binding], None] | None = None) -> None:
        add = add or self._add
        if self.custom:
            self._patches.extend(patched(statement))
            if by := binds_by_text(statement):
                self._hidden = f"{by} in line {statement.lineno} may change"
        match statement:
            case ast.Import() | ast.ImportFrom():
                for name, imported in self.imports(statement):
                    add(name, imported)
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                assert self._bindings is not None
                self._bindings.pop(statement.name, None)
                add(statement.name, statement)
            case ast.If():
                for inner in self._branch(statement):
                    self._note(inner, add)
            case ast.Try():
                for inner in self._attempt(statement):
                    self._note(inner, add)
            case ast.With():
                for inner in statement.body:
                    self._note(inner, add)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Call(func=ast.Name(id=name)))) if (
                name not in _SETTERS
            ):
                self._effects.append((frozenset((name,)), statement))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                add(name, statement)
                self._effects.append((frozenset((name,)), name))
            case _:
                for name in _targets(statement):
                    add(name, statement)

    def _add(self, name: str, binding: Binding) -> None:
        assert self._bindings is not None
        if isinstance(binding, Import):
            self._bindings[name] = [binding]
        else:
            self._bindings.setdefault(name, []).append(binding)

    def _add_fallback(self, name: str, binding: Binding) -> None:
        assert self._bindings is not None
        self._bindings.setdefault(name, [binding])

    def _branch(self, statement: ast.If) -> list[ast.stmt]:
        if "TYPE_CHECKING" in ast.dump(statement.test):
            # A package that loads its parts lazily says there, and only there, where its names come from.
            for inner in statement.body:
                self._note(inner, self._add_fallback)
            return statement.orelse
        return statement.orelse if self.names.evaluator.decide(statement.test, self.scope) is False else statement.body

    def _attempt(self, statement: ast.Try) -> list[ast.stmt]:
        """The body, or the first handler's where the body imports a package whose presence cannot be counted on."""
        imported = (inner for inner in statement.body if isinstance(inner, ast.Import | ast.ImportFrom))
        if not any(self._is_absent(each) for inner in imported for _, each in self.imports(inner)):
            return [*statement.body, *statement.orelse]
        for inner in statement.body:
            self._note(inner, self._add_fallback)
        return statement.handlers[0].body if statement.handlers else []

    def _is_absent(self, imported: Import) -> bool:
        whole = imported.name is None and imported.module in PACKAGES
        return not whole and isinstance(self.names.resolve(imported.module, imported.name), Opaque)

    def imports(self, statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
        """The names that an import binds here. Star imports are remembered."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                bound = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or bound, Import(bound, None)
            return
        base = self.package
        for _ in range(statement.level - 1):
            base = base.rpartition(".")[0]
        parts = [base] if statement.level and base else []
        module = ".".join([*parts, statement.module] if statement.module else parts)
        for alias in statement.names:
            if alias.name == "*":
                self._stars.append(module)
            else:
                yield alias.asname or alias.name, Import(module, alias.name)


def _targets(statement: ast.stmt) -> Iterable[str]:
    """The top-level names that a statement binds, or whose value it changes."""
    match statement:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in _names(target)]
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return _names(target)
        case ast.AugAssign(target=target):
            return _names(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return [name]
        case ast.Expr(value=ast.Call(func=ast.Name(id=setter), args=[value, *_])) if setter in _SETTERS:
            return _names(value)
        case ast.For() | ast.While():
            return [name for inner in statement.body for name in _targets(inner)]
    return []


def _names(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [name for element in elements for name in _names(element)]
        case ast.Subscript(value=value) | ast.Attribute(value=value) | ast.Starred(value=value):
            return _names(value)
    return []


@dataclass
class Names:
    """All modules that an analysis has looked into.

    Attributes:
        evaluator: the interpreter.
        roots: where modules are looked for, in order.
        files: every file read, by the name that locations use.
        replaced: dotted names of libraries that the source sets itself -> where.
    """

    evaluator: Evaluator
    roots: list[Root]
    files: dict[str, SourceFile] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    _namespaces: dict[str, Namespace | None] = field(default_factory=dict)

    def external(self, dotted: str) -> Value | None:
        """`registry.external`, but for names that the source has replaced: what those do is not known."""
        for name, where in self.replaced.items():
            if f"{dotted}.".startswith(f"{name}."):
                return Opaque(dotted, where)
        found = external(dotted)
        if isinstance(found, NativeClass):
            for name, where in self.replaced.items():
                if name.startswith(f"{dotted}."):
                    return Opaque(dotted, f"a class whose {name.rpartition('.')[2]} is {where}")
        return found

    def is_replaced(self, operator: str) -> str:
        """Why it is not known what an operator of torch does, "" where it is: modules call functions by any name."""
        for dotted, where in self.replaced.items():
            module, _, name = dotted.rpartition(".")
            # A tensor's method may be what any operator between tensors calls.
            if "torch.Tensor" in (module, dotted) or (module in ("torch", "torch.nn.functional") and name == operator):
                return f"{dotted} is {where}"
        return ""

    def replace(self, dotted: str, where: str) -> None:
        """Note that the source sets a name of a library."""
        if dotted.partition(".")[0] in PACKAGES:
            self.replaced.setdefault(dotted, where)

    def namespace(self, dotted: str) -> Namespace | None:
        """The namespace of a module, None where no source root has it."""
        if dotted not in self._namespaces:
            self._namespaces[dotted] = self._open(dotted)
        return self._namespaces[dotted]

    def _open(self, dotted: str) -> Namespace | None:
        for root in self.roots:
            if (found := root.find(dotted)) is not None:
                path, package = found
                file = open_source(path, path.relative_to(root.folder).as_posix())
                self.files[file.name] = file
                return Namespace(file, dotted, package, self, custom=not root.package)
        return None

    def is_custom(self, dotted: str) -> bool:
        """Whether a module lies in a folder of custom code."""
        found = next((root for root in self.roots if root.find(dotted) is not None), None)
        return found is not None and not found.package

    def resolve(self, module: str, name: str | None) -> Value:
        """The value of ``import module`` (``name`` None) or of ``name`` in ``from module import name``."""
        dotted = f"{module}.{name}" if name and module else name or module
        if (value := self.external(dotted)) is not None:
            return value
        namespace = self.namespace(module) if module else None
        if name is None:
            return PythonModule(namespace) if namespace else Opaque(module, "a package whose source is not read")
        if namespace is not None:
            try:
                return namespace.get(name)
            except KeyError:
                pass
        inner = self.namespace(dotted)
        if inner is not None:
            return PythonModule(inner)
        reason = f"not defined in {namespace.file.name}" if namespace else "part of a package whose source is not read"
        return Opaque(dotted, reason)
