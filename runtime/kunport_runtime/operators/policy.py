"""Which provider may run an operator, and in what order they are asked.

A policy is TOML, in a file that ``KUNPORT_OPS_POLICY`` names or in the variable itself:

    order = ["vendor", "triton", "torch"]   # asked in this order; by default the device's
    allow = ["triton", "torch"]             # nobody else; by default everybody
    deny = ["vendor"]                       # not these
    strict = false                          # true: the first of the order, or an error
    probe = true                            # false: trust implementations untried

    [operators.rms_norm]                    # the same keys but for probe, for one operator
    order = ["torch"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kunport_runtime.operators.errors import PolicyError
from kunport_runtime.operators.implementation import REFERENCE

VARIABLE = "KUNPORT_OPS_POLICY"

# Device -> who is asked where the policy gives no order. Providers of one's own come before all.
ORDERS = {"cpu": (REFERENCE,), "cuda": ("triton", REFERENCE), "kunlun": ("vendor", "triton", REFERENCE)}
# Operators whose reference is a call of the device's own library (cuBLAS): it is asked before a portable kernel.
OF_LIBRARY = ("linear",)
BUILT_IN = ("vendor", "triton", REFERENCE)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a policy says of all operators, or of one. None: it says nothing.

    Attributes:
        order: who is asked, in turn.
        allow: who may be chosen.
        deny: who may not.
        strict: whether only the first may be chosen.
    """

    order: tuple[str, ...] | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    strict: bool | None = None

    def over(self, general: Rule) -> Rule:
        """The rule, with the general one's word where it has none."""
        pairs = {key: (getattr(self, key), getattr(general, key)) for key in _KEYS}
        return Rule(**{key: own if own is not None else other for key, (own, other) in pairs.items()})


_KEYS = ("order", "allow", "deny", "strict")


@dataclass(frozen=True)
class Policy:
    """The rule of all operators, and those of single ones over it.

    Attributes:
        general: of all operators.
        operators: operator -> its own rule.
        probe: whether implementations are tried before they are trusted.
    """

    general: Rule = Rule()
    operators: Mapping[str, Rule] = field(default_factory=dict)
    probe: bool = True

    def rule(self, operator: str) -> Rule:
        """What holds for an operator."""
        return self.operators.get(operator, Rule()).over(self.general)

    def candidates(self, operator: str, device: str, own: Collection[str] = ()) -> tuple[str, ...]:
        """The providers that may run an operator, in the order in which they are asked.

        Args:
            operator: its name.
            device: cpu, cuda or kunlun.
            own: providers that are not kunport's.
        """
        rule = self.rule(operator)
        order = rule.order
        if order is None:
            order = (*own, *ORDERS.get(device, ORDERS["cpu"]))
            if operator in OF_LIBRARY:
                order = tuple(sorted(order, key="triton".__eq__))
        allowed = [each for each in order if each not in (rule.deny or ()) and each in (rule.allow or order)]
        return tuple(allowed[:1] if rule.strict else allowed)

    def check(self, operators: Collection[str], providers: Collection[str]) -> None:
        """Raise where the policy names an operator or a provider that does not exist.

        Raises:
            PolicyError: it does; a misspelt name would otherwise be ignored without a word.
        """
        known = {*providers, *BUILT_IN}
        for name in self.operators:
            if name not in operators:
                raise PolicyError(f"The policy names the operator {name}, which does not exist.", "See `kunport ops`.")
        for rule in (self.general, *self.operators.values()):
            for provider in (*(rule.order or ()), *(rule.allow or ()), *(rule.deny or ())):
                if provider not in known:
                    raise PolicyError(
                        f"The policy names the provider {provider}, which does not exist.",
                        f"There are {', '.join(sorted(known))}.",
                    )


REFERENCE_ONLY = Policy(Rule(order=(REFERENCE,)))
"""What `--disable-custom-ops` asks for: the reference everywhere."""


def read_policy(text: str) -> Policy:
    """The policy of a text.

    Raises:
        PolicyError: it is no TOML, or has keys or values that a policy does not.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"The policy is no TOML: {error}.", "See the reference of operators.") from None
    probe, operators = table.pop("probe", True), table.pop("operators", {})
    if not isinstance(probe, bool) or not isinstance(operators, dict):
        raise PolicyError("In the policy, probe is a flag and operators a table.", "See the reference of operators.")
    return Policy(
        _rule(table, ""), {name: _rule(rule, f"operators.{name}.") for name, rule in operators.items()}, probe
    )


def policy_of_environment() -> Policy:
    """The policy that ``KUNPORT_OPS_POLICY`` names or holds; the default one where it is not set.

    Raises:
        PolicyError: it is neither a file nor a policy.
    """
    value = os.environ.get(VARIABLE, "")
    if "=" in value or not value:
        return read_policy(value)
    try:
        return read_policy(Path(value).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{VARIABLE} names {value}, which cannot be read: {error}.", "Name a file in TOML.") from None


def _rule(table: object, where: str) -> Rule:
    if not isinstance(table, dict):
        raise PolicyError(f"In the policy, {where.rstrip('.')} is no table.", f"Its keys are {', '.join(_KEYS)}.")
    values: dict[str, tuple[str, ...] | bool] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise PolicyError(f"The policy has no key {where}{key}.", f"Its keys are {', '.join(_KEYS)}.")
        if key == "strict":
            if not isinstance(value, bool):
                raise PolicyError(f"{where}strict of the policy is no flag.", "Write true or false.")
            values[key] = value
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            values[key] = tuple(value)
        else:
            raise PolicyError(f"{where}{key} of the policy is no list of providers.", f'Write {key} = ["torch"].')
    return Rule(**values)  # type: ignore[arg-type]
