"""The equation of a block in JavaScript and as a formula, for the page of the gate explorer.

A block's forward function runs once on arrays that hold numbers of steps in place of values, and so notes its steps.
The page then computes what the function computes, also if the block is a user's own.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from highway_lab.files import reason_of
from highway_networks import Activation, Block, InputError

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
CALLS = {
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
JAVASCRIPT = {name: f"{{}} {sign} {{}}" for name, (sign, _, _) in INFIX.items()} | CALLS
LONGEST = 60  # characters of a part of a formula; a longer one becomes "…"


class Step(NamedTuple):
    """A function of earlier steps, by their numbers; without a function, a constant or, if that is None, an input."""

    function: Callable | None = None
    operands: tuple[int, ...] = ()
    constant: float | None = None


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that notes what is done to it: for each element the number of the step that made it.

    Functions that are not in JAVASCRIPT raise TypeError.
    """

    def __init__(self, steps: list[Step], numbers: np.ndarray):
        self.steps, self.numbers = steps, numbers

    def __getitem__(self, key):
        if isinstance(key, Recorded):  # a mask: whoever sets these values chooses by it once more
            return self.copy()
        return Recorded(self.steps, self.numbers[key])  # a view, as in arrays of values

    def __setitem__(self, key, new):
        if isinstance(key, Recorded):  # a mask
            key, new = ..., np.where(key, new, self)
        self.numbers[key] = self.number(new)

    def __array_ufunc__(self, function, method, *operands, out=(None,), where=True, **options):
        if function.__name__ not in JAVASCRIPT or method != "__call__" or options:
            raise TypeError(" ".join([function.__name__, *([method] if method != "__call__" else []), *options]))
        numbers = np.broadcast_arrays(*map(self.number, operands))
        made = [self.note(function, each) for each in zip(*(of.flat for of in numbers), strict=True)]
        result = Recorded(self.steps, np.reshape(made, numbers[0].shape))
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

    def number(self, operand: Any) -> np.ndarray:
        """Return the numbers of the steps that made an operand."""
        return operand.numbers if isinstance(operand, Recorded) else np.array(self.note(constant=float(operand)))

    def note(self, *step: Any, **constant: float) -> int:
        self.steps.append(Step(*step, **constant))
        return len(self.steps) - 1


class Equation:
    """The steps of a block: first x and, by branch, the maps z, then what the block makes of them.

    y and z: numbers of the steps that make the output and the branches H, T, ...
    """

    def __init__(self, name: str, block: Block, activation: Activation, D: int):
        """Record the forward function of a block of D units; raises InputError if the page cannot compute it."""
        self.branches, G = block.branches, len(block.branches)
        self.steps = [Step()] * (1 + G)
        numbers = (np.array([[0]]), np.arange(1, 1 + G).reshape(G, 1, 1), np.array([[-1]]))  # no step has made y yet
        x, z, y = (Recorded(self.steps, of) for of in numbers)
        try:
            block.forward(x, z, y, activation)
            self.y, self.z = y.numbers.item(), z.numbers.ravel().tolist()
            found = None if self.holds(block, activation, D) else "a step that depends on other units"
        except Exception as error:  # whatever a user's function raises
            found = reason_of(error)
        if found:
            expected = "expected a forward function of elementwise NumPy functions that the page knows"
            remedy = "write it with others, or use gate_maps, class_routing and lesions, which need no page"
            raise InputError(f"block {name}: {expected}, found {found}; {remedy}")

    def holds(self, block: Block, activation: Activation, D: int) -> bool:
        """Return whether the steps give what the block's function computes, of random numbers."""
        rng = np.random.default_rng(0)
        x, z = rng.normal(size=(D, 8)), rng.normal(0, 3, (len(self.branches), block.rows(D) // len(self.branches), 8))
        y, values = np.full_like(x, np.nan), [x.copy(), *z.copy()]
        with np.errstate(all="ignore"):
            block.forward(x, z, y, activation)
            for function, operands, constant in self.steps[len(values) :]:
                values.append(function(*(values[operand] for operand in operands)) if function else constant)
        return np.allclose([values[number] for number in (self.y, *self.z)], [y, *z], rtol=1e-9)

    def javascript(self) -> str:
        """Return the function (x, z, y), which turns z (G·D) into H, T, ... and fills y (D), for one sample."""
        inputs = ["x[j]", *(f"z[j + {g} * D]" for g in range(len(self.branches)))]
        names, code = [], []
        for number, (function, operands, constant) in enumerate(self.steps):
            names.append(f"v{number}" if constant is None else f"({json.dumps(constant)})")
            if function:
                of = JAVASCRIPT[function.__name__].format(*(names[operand] for operand in operands))
                code.append(f"const v{number} = Math.fround({of});")
            elif constant is None:
                code.append(f"const v{number} = {inputs[number]};")
        results = zip(("y[j]", *inputs[1:]), (self.y, *self.z), strict=True)
        body = "\n    ".join([*code, *(f"{to} = {names[number]};" for to, number in results)])
        return f"(x, z, y) => {{\n  for (let j = 0; j < D; j++) {{\n    {body}\n  }}\n}}"

    def formula(self) -> str:
        """Return y as a formula of x and the branches, in which names stand in braces: ({H} − {x})·{T} + {x}."""
        names = zip((0, *self.z), ("x", *self.branches), strict=True)
        texts = {number: (f"{{{name}}}", 4) for number, name in names}  # and how tightly they bind
        for number, (function, operands, constant) in enumerate(self.steps):
            name, of = function.__name__ if function else None, [texts[operand] for operand in operands]
            if name == "square" or (name == "power" and self.steps[operands[1]].constant == 2):
                name, of = "power", [of[0], ("", 4)]  # whose sign holds the 2
                _, sign, level = None, "²", INFIX["power"][2]
            else:
                _, sign, level = INFIX.get(name, (None, None, 4))
            if sign:
                levels = (level + (name == "power"), level + (name not in ("add", "multiply")))
                text = sign.join(
                    text if own >= least else f"({text})" for (text, own), least in zip(of, levels, strict=True)
                )
            elif function:
                text = f"{'√' if name == 'sqrt' else name}({', '.join(text for text, _ in of)})"
            else:
                text = "…" if constant is None else f"{constant:g}".replace("-", "−")
            texts.setdefault(number, (text, level) if len(text) <= LONGEST or number == self.y else ("…", 4))
        return texts[self.y][0]
