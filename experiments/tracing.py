"""Scalars that compute as floats do and record what is read, and the cost of those reads.

In arrays of objects NumPy's functions call the methods of the elements, so the code that is traced is the code that
trains nets. There np.matmul is a plain loop over rows, columns and products, without blocks that fit a processor cache.

The cost is ByteDMD, the data movement distance of Smith, Goldfarb & Ding (2022, arXiv:2203.02536) counted in bytes. All
that a program has touched lies in one stack, the value used last on top. To read a byte at depth d costs ⌈√d⌉, because
a plane that stores d bytes extends that far. Computing and writing are free. In detail:

- Arguments are pushed in their order, unread; an operation pushes its result as a new value.
- The bytes of a value lie side by side.
- An operation first finds its operands, then moves them to the top, the left one before the right one.
- Constants are not values, and to add a value to the constant 0 copies the value.
"""

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Collection
from itertools import count

import numpy as np

BYTES = 4  # per value: nets are trained in float32
Event = tuple[int, ...]  # the values that are read: none, one or two


class Trace:
    """Record of a program: event i makes value i.

    With `copies`, copying a value from one array to another reads it and makes a new value, as in arrays of floats.
    Without, the copy is the same value in a second place, and free.
    """

    def __init__(self, *, copies: bool):
        self.events: list[Event] = []
        self._copies = copies

    def argument(self, values: np.ndarray) -> np.ndarray:
        """Push an argument of the program; returns it as an array of Scalars."""
        scalars = np.empty(values.shape, object)
        scalars.flat = [self.record(value) for value in values.flat]
        return scalars

    def record(self, value: float, *operands: "Scalar") -> "Scalar":
        """Record the operation that reads these operands; returns its result."""
        self.events.append(tuple(operand.number for operand in operands))
        return Scalar(self, len(self.events) - 1, float(value))

    def copy(self, scalar: "Scalar") -> "Scalar":
        """Return the Scalar that stands in the place to which this one is copied."""
        return self.record(scalar.value, scalar) if self._copies else scalar


def operation(function: Callable[..., float], *, reflected: bool = False) -> Callable[..., "Scalar"]:
    """Return the method of Scalar that computes a function of one or two operands."""

    def method(self: "Scalar", *others: "Scalar | float") -> "Scalar":
        operands = (*others, self) if reflected else (self, *others)
        return self.trace.record(function(*map(float, operands)), *(o for o in operands if isinstance(o, Scalar)))

    return method


class Scalar:
    """A value of a trace and its number there, with the operations of nets of tanh blocks."""

    __slots__ = ("number", "trace", "value")

    def __init__(self, trace: Trace, number: int, value: float):
        self.trace, self.number, self.value = trace, number, value

    def __float__(self) -> float:
        return self.value

    def __pos__(self) -> "Scalar":
        return self.trace.copy(self)

    __neg__ = operation(operator.neg)
    __add__ = operation(operator.add)
    __sub__, __rsub__ = operation(operator.sub), operation(operator.sub, reflected=True)
    __mul__, __rmul__ = operation(operator.mul), operation(operator.mul, reflected=True)
    __truediv__, __rtruediv__ = operation(operator.truediv), operation(operator.truediv, reflected=True)

    def __radd__(self, constant: float) -> "Scalar":
        return self + constant if constant else self.trace.copy(self)

    exp, tanh = operation(math.exp), operation(math.tanh)  # as np.exp and np.tanh call them


class Memory(np.ndarray):
    """An array of Scalars that copies what is assigned to it: y[...] = H calls the trace's `copy`."""

    def __setitem__(self, key, values):
        super().__setitem__(key, +values)


def depths(events: Collection[Event], kept: Collection[int] | None = None) -> np.ndarray:
    """Return the depth at which each read finds its value, in values, 1 on top; reads in their order.

    kept: values that stay to the end, while all others leave the stack after their last read; None: all values stay.

    The stack is the list of the times at which its values were last used. These ascend, so bisection finds a value;
    most reads are near the end, so deleting moves little.
    """
    last_read = {value: event for event, operands in enumerate(events) for value in operands}
    last_read |= dict.fromkeys(range(len(events)) if kept is None else kept, math.inf)
    found, stack, used, clock = [], [], [], count()
    for event, operands in enumerate(events):
        found += [len(stack) - bisect_left(stack, used[value]) for value in operands]
        for value in dict.fromkeys(operands):
            del stack[bisect_left(stack, used[value])]
            used[value] = next(clock)
            if last_read[value] > event:
                stack.append(used[value])
        used.append(next(clock))
        if event in last_read:
            stack.append(used[event])
    return np.array(found)


def costs(depths: np.ndarray, size: int = BYTES) -> np.ndarray:
    """Return the cost of each read of a value at these depths: Σ ⌈√d⌉ over the depths d of its `size` bytes."""
    return np.ceil(np.sqrt(size * depths[:, None] - np.arange(size))).sum(axis=1).astype(np.int64)
