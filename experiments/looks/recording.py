"""The equation of a block in JavaScript and as a formula, for the page of the gate explorer.

A block's forward function runs once on arrays that hold steps in place of values, and so notes its steps. The page then
computes what the function computes, also if the block is a user's own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_networks import Activation, Block, InputError, reason_of

INFIX = {  # NumPy's functions that are signs: in JavaScript, in a formula, and how tightly they bind there
    "add": ("+", " + ", 1),
    "subtract": ("-", " − ", 1),
    "multiply": ("*", "·", 2),
    "divide": ("/", "/", 2),
    "power": ("**", "^", 3),
    "less": ("<", " < ", 0),
    "less_equal": ("<=", " ≤ ", 0),
    "greater": (">", " > ", 0),
    "greater_equal": (">=", " ≥ ", 0),
}
JAVASCRIPT = {
    **{name: f"{{}} {sign} {{}}" for name, (sign, *_) in INFIX.items()},
    **{name: f"Math.{name}({{}})" for name in ("cos", "exp", "expm1", "log", "log1p", "sign", "sin", "sqrt", "tanh")},
    "absolute": "Math.abs({})",
    "arctan": "Math.atan({})",
    "copy": "{}",
    "clip": "Math.min(Math.max({}, {}), {})",
    "empty_like": "0",
    "expit": "1 / (1 + Math.exp(-{}))",
    "logaddexp": "Math.max({0}, {1}) + Math.log1p(Math.exp(-Math.abs({0} - {1})))",
    "maximum": "Math.max({}, {})",
    "minimum": "Math.min({}, {})",
    "negative": "-{}",
    "reciprocal": "1 / {}",
    "square": "{0} * {0}",
    "where": "{} ? {} : {}",
    "zeros_like": "0",
}
LONGEST = 60  # characters of a part of a formula; a longer one becomes "…"


@dataclass(frozen=True, eq=False)
class Step:
    """A number of a unit: its values (D, B) in some samples, its name in JavaScript and the line that makes it."""

    values: Any
    name: str
    line: str = ""  # a constant has none
    function: str = ""  # of NumPy; an input or a constant has none
    operands: tuple["Step", ...] = ()


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the steps that made its elements, which adds to `made` what is done to it.

    Functions that are not in JAVASCRIPT raise TypeError.
    """

    def __init__(self, made: list[Step], steps: Any):
        self.made, self.steps = made, np.asarray(steps, object)

    def __getitem__(self, key):
        if isinstance(key, Recorded):  # a mask: whoever sets these values chooses by it once more
            return self.copy()
        return Recorded(self.made, self.steps[key])  # a view, as in arrays of values

    def __setitem__(self, key, new):
        if isinstance(key, Recorded):  # a mask
            key, new = ..., np.where(key, new, self)
        self.steps[key] = self.steps_of(new)

    def __array_ufunc__(self, function, method, *operands, out=(None,), where=True, **options):
        if function.__name__ not in JAVASCRIPT or method != "__call__" or options:
            raise TypeError(" ".join([function.__name__, *([method] if method != "__call__" else []), *options]))
        steps = np.broadcast_arrays(*map(self.steps_of, operands))
        made = [self.note(function, *each) for each in zip(*(of.flat for of in steps), strict=True)]
        result = Recorded(self.made, np.reshape(made, steps[0].shape))
        if out[0] is None:
            return result
        out[0][... if where is True else where] = result
        return out[0]

    def __array_function__(self, function, types, operands, options):
        return self.__array_ufunc__(function, "__call__", *operands, out=(options.pop("out", None),), **options)

    def copy(self):
        return np.copy(self)

    def __array__(self, *_, **__):
        raise TypeError("a conversion to an array")

    def __getattr__(self, name):
        raise AttributeError(f"the attribute {name}")

    def __bool__(self):
        raise TypeError("a condition on a value")

    def steps_of(self, operand: Any) -> np.ndarray:
        """Return the steps that made an operand; a number is a step of its own."""
        if isinstance(operand, Recorded):
            return operand.steps
        self.made.append(Step(float(operand), f"({json.dumps(float(operand))})"))
        return np.array(self.made[-1], object)

    def note(self, function: Callable, *operands: Step) -> Step:
        name, code = f"v{len(self.made)}", JAVASCRIPT[function.__name__].format(*(of.name for of in operands))
        line = f"const {name} = Math.fround({code});"
        values = function(*(of.values for of in operands))
        self.made.append(Step(values, name, line, function.__name__, operands))
        return self.made[-1]


class Equation:
    """The steps of a block: first x and, by branch, the maps z, then what the block makes of them.

    results: the steps of the output y and of the branches H, T, ...
    """

    def __init__(self, name: str, block: Block, activation: Activation, D: int):
        """Record the forward function of a block of D units; raises InputError if the page cannot compute it."""
        rng, self.branches, G = np.random.default_rng(0), block.branches, len(block.branches)
        x, z = rng.normal(size=(D, 8)), rng.normal(0, 3, (G, block.rows(D) // G, 8))
        self.places = ["x[j]", *(f"z[j + {g} * D]" for g in range(G))]
        values = zip([x.copy(), *z.copy()], self.places, strict=True)
        self.steps = [Step(of, f"v{i}", f"const v{i} = {place};") for i, (of, place) in enumerate(values)]
        x_step, *z_steps = self.steps
        arrays = [[x_step]], [[[of]] for of in z_steps], [[None]]  # nothing has made y yet
        recorded = [Recorded(self.steps, of) for of in arrays]
        try:
            with np.errstate(all="ignore"):
                block.forward(*recorded, activation)
                self.results = [of for array in recorded[:0:-1] for of in array.steps.flat]
                y = np.full_like(x, np.nan)
                block.forward(x, z, y, activation)
            same = np.allclose([of.values for of in self.results], [y, *z], rtol=1e-9)
            found = None if same else "a step that depends on other units"
        except Exception as error:  # whatever a user's function raises
            found = reason_of(error)
        if found:
            expected = "expected a forward function of elementwise NumPy functions that the page knows"
            remedy = "write it with others, or use gate_maps, class_routing and lesions, which need no page"
            raise InputError(f"block {name}: {expected}, found {found}; {remedy}")

    def javascript(self) -> str:
        """Return the function (x, z, y), which turns z (G·D) into H, T, ... and fills y (D), for one sample."""
        results = zip(("y[j]", *self.places[1:]), self.results, strict=True)
        lines = [of.line for of in self.steps if of.line] + [f"{to} = {of.name};" for to, of in results]
        body = "\n    ".join(lines)
        return f"(x, z, y) => {{\n  for (let j = 0; j < D; j++) {{\n    {body}\n  }}\n}}"

    def formula(self) -> str:
        """Return y as a formula of x and the branches, in which names stand in braces: ({H} − {x})·{T} + {x}."""
        y, *branches = self.results
        named = zip((self.steps[0], *branches), ("x", *self.branches), strict=True)
        texts = {step: (f"{{{name}}}", 4) for step, name in named}  # and how tightly they bind
        for step in self.steps:
            of, (_, sign, binds) = [texts[operand] for operand in step.operands], INFIX.get(step.function, ("", "", 4))
            if sign:
                least = binds + (step.function == "power"), binds + (step.function not in ("add", "multiply"))
                parts = (part if own >= bound else f"({part})" for (part, own), bound in zip(of, least, strict=True))
                text = sign.join(parts)
            elif step.function:
                text = f"{'√' if step.function == 'sqrt' else step.function}({', '.join(part for part, _ in of)})"
            else:
                text = "…" if step.line else f"{step.values:g}".replace("-", "−")
            texts.setdefault(step, (text, binds) if len(text) <= LONGEST or step is y else ("…", 4))
        return texts[y][0]
