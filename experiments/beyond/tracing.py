"""Numbers that compute as floats do and record what is read, and what those reads cost.

NumPy's functions call the elements' own methods in arrays of objects, so what is traced is the very code that trains
nets; np.matmul is there a plain loop over rows, columns and products, in this order, with no blocks of a cache's size.

The cost is ByteDMD: the data movement distance of Smith, Goldfarb & Ding (2022, arXiv:2203.02536), which charges √d for
a value, by bytes and rounded up. All that a program has touched lies in one stack, the last used on top, and to read a
byte at depth d costs ⌈√d⌉, as memory of d bytes in a plane reaches that far; computing and writing are free. In detail:
arguments are pushed in their order, unread, and so is what an operation makes, as a new value; a value's bytes lie side
by side; an operation looks for its operands first and then moves them to the top, the left one before the right one.
Constants are no values, and what is added to a constant 0 is copied.
"""

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np

BYTES = 4  # a value's: nets are trained in float32
Event = tuple[tuple[str, ...], tuple[int, ...]]  # a label, and the values that are read: none, one or two


class Trace:
    """What a program did: event i made value i.

    copies: whether to copy a value from one array to another is an operation that reads it and makes a new one, as it
    is in arrays of floats; else a copy is the same value in a second place, and free.
    """

    def __init__(self, *, copies: bool):
        self.events: list[Event] = []
        self._copies, self._label = copies, ()

    @contextmanager
    def labelled(self, *label: str) -> Iterator[None]:
        """Label the events meanwhile; it decorates functions, too."""
        outer, self._label = self._label, label
        try:
            yield
        finally:
            self._label = outer

    def argument(self, values: np.ndarray) -> np.ndarray:
        """Push an argument of the program: an array of Scalars, in the shape of the values."""
        scalars = np.empty(values.shape, object)
        scalars.flat = [self.make(value) for value in values.flat]
        return scalars

    def make(self, value: float, *operands: "Scalar") -> "Scalar":
        """A new value, for which these were read."""
        self.events.append((self._label, tuple(operand.number for operand in operands)))
        return Scalar(self, len(self.events) - 1, float(value))

    def copy(self, scalar: "Scalar") -> "Scalar":
        """What stands in the place to which a value is copied."""
        return self.make(scalar.value, scalar) if self._copies else scalar


def operation(function: Callable[..., float], *, reflected: bool = False) -> Callable[..., "Scalar"]:
    """The method of Scalar that computes a function of itself and, if any, one more operand."""

    def method(self: "Scalar", *others: "Scalar | float") -> "Scalar":
        operands = (*others, self) if reflected else (self, *others)
        return self.trace.make(function(*map(float, operands)), *(o for o in operands if isinstance(o, Scalar)))

    return method


class Scalar:
    """A value of a trace: its number there, and what it is. Can do what nets of tanh blocks ask of it."""

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
    """An array of Scalars into which values are copied one by one: y[...] = H calls the trace's `copy`."""

    def __setitem__(self, key, values):
        super().__setitem__(key, +values)


def depths(events: Collection[Event], kept: Collection[int] | None = None) -> np.ndarray:
    """How deep in the stack each read found its value, in values, 1 on top; reads in their order.

    `kept`: the values that are still wanted at the end; then all others leave the stack after their last read. Without
    it nothing ever leaves.

    The stack is the list of the times at which its values were used last: in their order, so that one is found by
    bisection, and so close to its end, as a rule, that little has to move.
    """
    found, stack, used, clock = [], [], [], count()
    last = [math.inf] * len(events) if kept is None else last_reads(events, kept)
    for event, (_, operands) in enumerate(events):
        found += [len(stack) - bisect_left(stack, used[value]) for value in operands]
        for value in dict.fromkeys(operands):
            del stack[bisect_left(stack, used[value])]
            used[value] = next(clock)
            if last[value] > event:
                stack.append(used[value])
        used.append(next(clock))
        if last[event] > event:
            stack.append(used[event])
    return np.array(found)


def last_reads(events: Collection[Event], kept: Collection[int]) -> list[float]:
    """The last event to read each value; -1 if none does, infinite for those that are kept."""
    last = [-1.0] * len(events)
    for event, (_, operands) in enumerate(events):
        for value in operands:
            last[value] = event
    for value in kept:
        last[value] = math.inf
    return last


def costs(depths: np.ndarray, size: int = BYTES) -> np.ndarray:
    """What reading values so deep in the stack costs: Σ ⌈√d⌉ over the depths d of the `size` bytes of each."""
    return np.ceil(np.sqrt(size * depths[:, None] - np.arange(size))).sum(axis=1).astype(np.int64)
