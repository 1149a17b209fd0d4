"""Data movement: depths and costs worked by hand, and traces that compute what nets compute."""

import math
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import data_movement as dm
from experiments.claims import Verdict
from experiments.study import Results, StudyRun
from experiments.tracing import Event, Memory, Scalar, Trace, costs, depths
from highway_networks import DeepNet

D, L, B = 3, 4, 2


def events_of(program: Callable, *arguments: float, copies: bool = False) -> list[Event]:
    """Trace a program of numbers."""
    trace = Trace(copies=copies)
    program(*trace.argument(np.array(arguments)))
    return trace.events


def test_depths_of_a_program_worked_by_hand():
    def program(a, b):  # the stack, its top to the right: a b
        c = a * b  # a at 2, b at 1; then a b c
        d = c + a  # 1, 3; then b c a d
        d * d  # 1, 1; then b c a d e
        b - 1  # 5; then c a d e b f
        1 / c  # 6

    found = depths(events_of(program, 2, 3))
    assert found.tolist() == [2, 1, 1, 3, 1, 1, 5, 6]
    assert costs(found, 1).tolist() == [2, 1, 1, 2, 1, 1, 3, 3]
    # Of four bytes the one on top lies at 1 to 4, the next at 5 to 8: ⌈√1⌉ + ... + ⌈√4⌉ = 1 + 2 + 2 + 2, 3 + 3 + 3 + 3.
    assert costs(found).tolist() == [12, 7, 7, 15, 7, 7, 20, 20]


def test_a_matrix_times_a_vector_is_read_row_by_row():
    trace = Trace(copies=True)
    W, x = trace.argument(np.array([[1, 2], [3, 4]])), trace.argument(np.array([[5], [6]]))
    y = np.matmul(W, x, out=np.empty((2, 1), object))
    assert y.astype(float).tolist() == [[17], [39]]
    # The stack is W00 W01 W10 W11 x0 x1; the first row makes p, q and their sum s, the second r and t.
    expected = [6, 2]  # W00·x0, then W01 W10 W11 x1 W00 x0 p
    expected += [7, 4]  # W01·x1, then W10 W11 W00 x0 p W01 x1 q
    expected += [4, 1]  # p + q, then W10 W11 W00 x0 W01 x1 p q s
    expected += [9, 6]  # W10·x0, then W11 W00 W01 x1 p q s W10 x0 r
    expected += [10, 7]  # W11·x1, then W00 W01 p q s W10 x0 r W11 x1 t
    expected += [4, 1]  # r + t
    assert depths(trace.events).tolist() == expected


@pytest.mark.parametrize("copies", [True, False])
def test_a_copy_is_a_read_and_a_new_value_or_the_same_value(copies):
    trace = Trace(copies=copies)
    (a,) = arguments = trace.argument(np.array([3.0]))
    place = np.zeros(2, object).view(Memory)
    place[:1] = arguments
    place[1:] = 0  # a constant: never an operation
    assert place.astype(float).tolist() == [3, 0]
    for copy in (place[0], 0.0 + a):  # a constant 0 plus a value copies it
        assert (copy is a) is not copies
    assert depths(trace.events).tolist() == [1, 2] * copies
    assert float(1.0 + a) == 4
    place *= 2
    assert len(trace.events) == 3 + 2 * copies


@st.composite
def programs(draw) -> list[Event]:
    """Draw events that read up to two values made before them, perhaps the same twice."""
    length = draw(st.integers(1, 20))
    values = [draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(length)]
    return [tuple(operands) for operands in values]


def brute_force(events: list[Event], kept: set[int] | None, size: int) -> list[int]:
    """Return the costs of all reads from a list of all bytes, the top first."""
    stack, found = [], []
    for event, operands in enumerate(events):
        places = [[stack.index((value, byte)) for byte in range(size)] for value in operands]
        found += [sum(math.ceil(math.sqrt(place + 1)) for place in of_bytes) for of_bytes in places]
        for value in (*operands, event):
            own = [(value, byte) for byte in range(size)]
            stack = own + [entry for entry in stack if entry not in own]
        if kept is not None:
            wanted = kept.union(*events[event + 1 :])
            stack = [entry for entry in stack if entry[0] in wanted]
    return found


@given(programs(), st.none() | st.sets(st.integers(0, 19)), st.integers(1, 4))
def test_costs_are_those_of_a_list_of_bytes(events, kept, size):
    kept = kept and {value for value in kept if value < len(events)}
    assert costs(depths(events, kept), size).tolist() == brute_force(events, kept, size)


def net_of(block: str, seed: int = 0) -> DeepNet:
    return DeepNet(5, 4, hidden=D, depth=L, block=block, dtype=np.float64, rng=np.random.default_rng(seed))


def flows(seed: int = 0) -> np.ndarray:
    """Draw x_0 and dL/dx_L."""
    return np.random.default_rng(seed).standard_normal((2, D, B))


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("block", dm.BLOCKS)
def test_a_trace_computes_what_the_net_computes(block, copies):
    net, rng = net_of(block), np.random.default_rng(0)
    _, cache = net.forward(rng.standard_normal((B, 5)))
    dlogits = rng.standard_normal((B, 4))
    dx_L = next(net.backward_blocks(dlogits, cache)).copy()
    grads = net.backward(dlogits, cache)
    _, blocks, workspace = dm.trace_step(net, cache.x[0], dx_L, copies=copies)
    traced = blocks.params.blocks, workspace.x, workspace.gradients.blocks
    for found, expected in zip(traced, (net.params.blocks, cache.x, grads.blocks), strict=True):
        assert all(isinstance(value, Scalar) for value in found.flat)
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


COPIES = {"plain": 3, "residual": 2, "highway": 0}  # y, dH and dx = another, dx = 0 + another; D·B values each


@pytest.mark.parametrize("block", dm.BLOCKS)
def test_costs_follow_from_sizes_copies_and_the_values_that_last(block):
    found, n_params = dm.measure(net_of(block), *flows()), net_of(block).params.blocks.size
    assert found == dm.measure(net_of(block, seed=1), *flows(1)), "a cost depends on a value"
    steps = {copies: dm.trace_step(net_of(block), *flows(), copies=copies) for copies in (True, False)}
    copying, free = steps[True][0].events, steps[False][0].events
    assert len(copying) - len(free) == COPIES[block] * L * D * B
    for rule, (copies, stays) in dm.RULES.items():
        trace, _, workspace = steps[copies]
        lasting = set(range(n_params))  # the first arguments
        lasting |= {scalar.number for scalar in workspace.gradients.blocks.flat}
        assert len(lasting) == 2 * n_params
        assert found[rule] == costs(depths(trace.events, None if stays else lasting)).sum()
    stays, leaves, stays_free, leaves_free = (found[rule] for rule in dm.RULES)
    assert leaves < stays
    assert leaves_free < stays_free
    assert (stays_free < stays, leaves_free < leaves) == (COPIES[block] > 0,) * 2


@pytest.mark.parametrize(("width", "wider"), dm.WIDER.items())
def test_blocks_of_equal_parameters_have_as_many(width, wider):
    assert 2 * width * (width + 1) == wider * (wider + 1)
    assert [dm.SizeCell("parameters", width, 2, 1).width_of(block) for block in dm.BLOCKS] == [wider, wider, width]
    assert {dm.SizeCell("width", width, 2, 1).width_of(block) for block in dm.BLOCKS} == {width}


@pytest.mark.parametrize("equal", ["width", "parameters"])
@pytest.mark.parametrize("name", dm.VARIED)
def test_one_size_is_varied_at_a_time(name, equal):
    found = [*dm.varied(made_up(), name, equal)]
    assert found == ([dm.SIZES[name]] if equal == "width" and name != "depth" else list(dm.VARIED[name]))


def made_up(highway: float = 1.0) -> Results:
    """Results of nets of equal costs but for those of highway nets, which are `highway` times as high."""
    of = {block: dict.fromkeys(dm.RULES, round(1000 * (highway if block == "highway" else 1))) for block in dm.BLOCKS}
    tasks = Results(dm.STUDY, []).next_tasks(least=99)
    return Results(dm.STUDY, [StudyRun(None, task, 1, False, {}, dm.Movement(deepcopy(of))) for task in tasks])


def test_a_saving_in_some_settings_is_partly_reproduced():
    def judged(results: Results) -> Verdict:
        return dm.judge_saving([run.measured for run in results.runs], "highway")

    assert judged(made_up(0.9)) == Verdict.REPRODUCED
    results = made_up(1.0)
    assert judged(results) == Verdict.NOT_REPRODUCED
    results.runs[-1].measured.costs["highway"][dm.USUAL] //= 2
    assert judged(results) == Verdict.PARTLY
