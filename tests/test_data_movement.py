"""Data movement: depths and costs worked by hand, and the committed costs counted again."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from helpers import ROOT
from hypothesis import given
from hypothesis import strategies as st

from experiments import data_movement as dm
from experiments.common import load
from experiments.data_movement import Event, Memory, Value, cost, depths
from experiments.study import Results

D, L, B = 3, 4, 2


def events_of(program: Callable) -> list[Event]:
    """Trace a program of two values."""
    events: list[Event] = []
    program(Value(events), Value(events))
    return events


def depths_of(events: list[Event]) -> list[int]:
    """The depths of all reads where nothing leaves the stack."""
    return depths(events, range(len(events))).tolist()


def test_depths_of_a_program_worked_by_hand():
    def program(a, b):  # the stack, its top to the right: a b
        c = a * b  # a at 2, b at 1; then a b c
        d = c + a  # 1, 3; then b c a d
        d * d  # 1, 1; then b c a d e
        b - 1  # 5; then c a d e b f
        1 / c  # 6

    found = depths_of(events_of(program))
    assert found == [2, 1, 1, 3, 1, 1, 5, 6]
    # Of four bytes the one on top lies at 1 to 4, the next at 5 to 8: ⌈√1⌉ + ... + ⌈√4⌉ = 1 + 2 + 2 + 2, 3 + 3 + 3 + 3.
    assert [cost(np.array([depth])) for depth in found] == [12, 7, 7, 15, 7, 7, 20, 20]


def test_a_matrix_times_a_vector_is_read_row_by_row():
    events: list[Event] = []
    W, x = (np.array([[Value(events) for _ in range(columns)] for _ in range(2)]) for columns in (2, 1))
    np.matmul(W, x, out=np.empty((2, 1), object))
    # The stack is W00 W01 W10 W11 x0 x1; the first row makes p, q and their sum s, the second r and t.
    expected = [6, 2]  # W00·x0, then W01 W10 W11 x1 W00 x0 p
    expected += [7, 4]  # W01·x1, then W10 W11 W00 x0 p W01 x1 q
    expected += [4, 1]  # p + q, then W10 W11 W00 x0 W01 x1 p q s
    expected += [9, 6]  # W10·x0, then W11 W00 W01 x1 p q s W10 x0 r
    expected += [10, 7]  # W11·x1, then W00 W01 p q s W10 x0 r W11 x1 t
    expected += [4, 1]  # r + t
    assert depths_of(events) == expected


def test_a_copy_is_a_read_and_a_new_value():
    events: list[Event] = []
    a = Value(events)
    place = np.zeros(2, object).view(Memory)
    place[:1] = np.array([a])
    place[1:] = 0  # a constant: never an operation
    for copy in (place[0], 0.0 + a):
        assert copy is not a
    assert depths_of(events) == [1, 2]
    place *= 2
    assert len(events) == 4


@st.composite
def programs(draw) -> list[Event]:
    """Draw events that read up to two values made before them, perhaps the same twice."""
    length = draw(st.integers(1, 20))
    values = [draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(length)]
    return [tuple(operands) for operands in values]


def brute_force(events: list[Event], lasting: set[int]) -> int:
    """Return the cost of all reads from a list of all bytes, the top first."""
    stack, found = [], 0
    for event, operands in enumerate(events):
        places = [stack.index((value, byte)) for value in operands for byte in range(dm.BYTES)]
        found += sum(math.ceil(math.sqrt(place + 1)) for place in places)
        for value in (*operands, event):
            own = [(value, byte) for byte in range(dm.BYTES)]
            stack = own + [entry for entry in stack if entry not in own]
        wanted = lasting.union(*events[event + 1 :])
        stack = [entry for entry in stack if entry[0] in wanted]
    return found


@given(programs(), st.sets(st.integers(0, 19)))
def test_costs_are_those_of_a_list_of_bytes(events, lasting):
    lasting = {value for value in lasting if value < len(events)}
    assert cost(depths(events, lasting)) == brute_force(events, lasting)


@pytest.mark.parametrize("block", dm.BLOCKS)
def test_parameters_and_their_gradients_stay_and_other_dead_values_leave(block):
    _, lasting = dm.trace_step(block, D, L, B)
    n_params = (2 if block == "highway" else 1) * L * D * (D + 1)
    assert len(lasting) == 2 * n_params
    assert set(range(n_params)) < lasting, "the parameters are the first arguments"
    costs = dm.measure(block, D, L, B)
    assert costs[dm.REUSED] < costs[dm.USUAL]


def committed() -> Results:
    experiment = load("data_movement")
    return Results(dm.STUDY, experiment.read(ROOT / experiment.log_path()).runs)


def test_the_costs_of_the_committed_log_come_out_again():
    small = [run for run in committed().runs if run.cell.width**2 * run.cell.depth * run.cell.batch < 2000]
    assert len(small) == 5
    for run in small:
        again = dm.train(run.task, None)
        assert (again.measured, again.n_trained) == (run.measured, run.n_trained)


@pytest.mark.parametrize(("width", "wider"), dm.WIDER.items())
def test_blocks_of_equal_parameters_have_as_many(width, wider):
    assert 2 * width * (width + 1) == wider * (wider + 1)
    assert [dm.SizeCell("parameters", width, 2, 1).width_of(block) for block in dm.BLOCKS] == [wider, wider, width]
    assert {dm.SizeCell("width", width, 2, 1).width_of(block) for block in dm.BLOCKS} == {width}


@pytest.mark.parametrize("name", dm.VARIED)
def test_one_size_is_varied_at_a_time(name):
    assert [*dm.varied(committed(), name)] == list(dm.VARIED[name])
