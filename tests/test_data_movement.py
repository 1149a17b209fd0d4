"""Data movement: depths and costs worked by hand, and that what is traced is what nets compute."""

import math
import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import SOME_ENVIRONMENT
from hypothesis import given
from hypothesis import strategies as st

from experiments.beyond import data_movement, data_movement_figures
from experiments.beyond.data_movement import (
    BLOCKS,
    EXPERIMENT,
    PARTS,
    RULES,
    SIZES,
    USUAL,
    VARIED,
    WIDER,
    Comparison,
    DataMovementLog,
    Movement,
    Reads,
    Setting,
    measure,
    plan,
    trace_step,
)
from experiments.beyond.tracing import Event, Memory, Scalar, Trace, costs, depths
from highway_lab.logs import SCHEMA
from highway_networks import DeepNet

D, L, B = 3, 4, 2


def traced(program: Callable, *arguments: float, copies: bool = False) -> Trace:
    """The trace of a program of numbers."""
    trace = Trace(copies=copies)
    program(*trace.argument(np.array(arguments)))
    return trace


def cost_of(program: Callable, *arguments: float, kept: tuple[int, ...] | None = None, copies: bool = False) -> int:
    """What it costs where a number is a byte."""
    return costs(depths(traced(program, *arguments, copies=copies).events, kept), 1).sum()


# ------------------------------------------------------------------------------------------ by hand


def test_depths_of_a_program_worked_by_hand():
    def program(a, b):  # the stack, its top to the right: a b
        c = a * b  # a at 2, b at 1; then a b c
        d = c + a  # 1, 3; then b c a d
        d * d  # 1, 1; then b c a d e
        b - 1  # 5; then c a d e b f
        1 / c  # 6

    found = depths(traced(program, 2, 3).events)
    assert found.tolist() == [2, 1, 1, 3, 1, 1, 5, 6]
    assert costs(found, 1).tolist() == [2, 1, 1, 2, 1, 1, 3, 3]
    # Of four bytes the one on top lies at 1 to 4, the next at 5 to 8: ⌈√1⌉ + ... + ⌈√4⌉ = 1 + 2 + 2 + 2, 3 + 3 + 3 + 3.
    assert costs(found).tolist() == [12, 7, 7, 15, 7, 7, 20, 20]


def test_the_left_operand_is_moved_first():
    def program(swapped):
        def of(a, b, c):
            a - b if swapped else b - a
            c * a  # in a stack b a or a b, above c and below the difference

        return of

    assert depths(traced(program(False), 1, 2, 3).events).tolist() == [2, 3, 4, 2]
    assert depths(traced(program(True), 1, 2, 3).events).tolist() == [3, 2, 4, 3]


def test_programs_cost_what_the_authors_of_bytedmd_say():
    def dot(a0, a1, b0, b1):
        return sum(x * y for x, y in ((a0, b0), (a1, b1)))  # 0 + a0·b0 reads the product, as a copy does

    assert cost_of(lambda a, b, c, d: b + c, 1, 2, 3, 4) == 4
    assert cost_of(dot, 0, 1, 2, 3, copies=True) == 14
    assert cost_of(dot, 0, 1, 2, 3, kept=(), copies=True) == 12


def test_a_matrix_times_a_vector_is_read_row_by_row():
    trace = Trace(copies=True)
    W, x = trace.argument(np.array([[1, 2], [3, 4]])), trace.argument(np.array([[5], [6]]))
    y = np.matmul(W, x, out=np.empty((2, 1), object))
    assert y.astype(float).tolist() == [[17], [39]]
    # The stack is W00 W01 W10 W11 x0 x1; p, q and their sum s are those of the first row, r and t those of the second.
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
    assert (place[0] is a) is not copies
    assert depths(trace.events).tolist() == [1] * copies
    place *= 2  # no copy, but an operation
    assert len(trace.events) == 2 + copies


@pytest.mark.parametrize("copies", [True, False])
def test_what_is_added_to_a_constant_0_is_copied(copies):
    trace = Trace(copies=copies)
    (a,) = trace.argument(np.array([3.0]))
    assert (0.0 + a is a) is not copies
    assert len(trace.events) == 1 + copies
    assert float(1.0 + a) == 4
    assert len(trace.events) == 2 + copies


def test_numbers_compute_as_floats_do():
    a, b = Trace(copies=True).argument(np.array([0.3, -1.7]))
    operations = (operator.add, operator.sub, operator.mul, operator.truediv)
    for operation in operations:
        for left, right in ((a, b), (a, 2), (2, b)):
            found = operation(left, right)
            assert isinstance(found, Scalar)
            assert float(found) == operation(float(left), float(right))
    assert [float(x) for x in (-a, +a, a.exp(), a.tanh())] == [-0.3, 0.3, math.exp(0.3), math.tanh(0.3)]


# ---------------------------------------------------------------------------------- against brute force


@st.composite
def programs(draw) -> list[Event]:
    """Events that read up to two values made before them, the same twice perhaps."""
    length = draw(st.integers(1, 20))
    values = [draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(length)]
    return [((), tuple(operands)) for operands in values]


def brute_force(events: list[Event], kept: set[int] | None, size: int) -> list[int]:
    """The costs of all reads from a list of all bytes, the top first."""
    stack, found = [], []
    for event, (_, operands) in enumerate(events):
        places = [[stack.index((value, byte)) for byte in range(size)] for value in operands]
        found += [sum(math.ceil(math.sqrt(place + 1)) for place in of_bytes) for of_bytes in places]
        for value in (*operands, event):
            own = [(value, byte) for byte in range(size)]
            stack = own + [entry for entry in stack if entry not in own]
        if kept is not None:
            wanted = kept.union(*(later for _, later in events[event + 1 :]))
            stack = [entry for entry in stack if entry[0] in wanted]
    return found


@given(programs(), st.none() | st.sets(st.integers(0, 19)), st.integers(1, 4))
def test_costs_are_those_of_a_list_of_bytes(events, kept, size):
    kept = kept and {value for value in kept if value < len(events)}
    assert costs(depths(events, kept), size).tolist() == brute_force(events, kept, size)


# ------------------------------------------------------------------------------------------ the nets


def net_of(block: str, seed: int = 0) -> DeepNet:
    return DeepNet(5, 4, hidden=D, depth=L, block=block, dtype=np.float64, rng=np.random.default_rng(seed))


def flows(seed: int = 0) -> np.ndarray:
    """x_0 and dL/dx_L."""
    return np.random.default_rng(seed).standard_normal((2, D, B))


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("block", BLOCKS)
def test_what_is_traced_is_what_the_net_computes(block, copies):
    net, rng = net_of(block), np.random.default_rng(0)
    _, cache = net.forward(rng.standard_normal((B, 5)))
    dlogits = rng.standard_normal((B, 4))
    dx_L = next(net.walk_back(dlogits, cache)).copy()
    grads = net.backward(dlogits, cache)
    _, blocks, workspace = trace_step(net, cache.x[0], dx_L, copies=copies)
    for found, expected in (
        (blocks.params.blocks, net.params.blocks),
        (workspace.x, cache.x),
        (workspace.gradients.blocks, grads.blocks),
    ):
        assert all(isinstance(value, Scalar) for value in found.flat)
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("block", BLOCKS)
def test_costs_depend_on_no_value(block):
    assert measure(net_of(block), *flows()) == measure(net_of(block, seed=1), *flows(1))


COPIES = {"plain": 3, "residual": 2, "highway": 0}  # y, dH and dx = another, dx = 0 + another; of D·B values


@pytest.mark.parametrize("block", BLOCKS)
def test_copies_are_those_of_the_blocks_functions(block):
    copying, free = (trace_step(net_of(block), *flows(), copies=copies)[0] for copies in (True, False))
    assert len(copying.events) - len(free.events) == COPIES[block] * L * D * B
    assert measure(net_of(block), *flows()).operations == sum(operands != () for _, operands in free.events)


OWN_READS = {  # by a block's functions, activations aside, of D·B values each: forward, backward
    "plain": (1, 1),
    "residual": (2, 2),
    "highway": (4 + 6, 8 + 5),  # σ and (H − x)·T + x; dH, dT and dx, and those of σ
}


def counts_of(block: str, *, by_value: bool = False) -> dict[tuple[str, str], int]:
    """How many reads there are by which pass and part reads, or by which pass reads what."""
    trace, *_ = trace_step(net_of(block), *flows(), copies=True)
    free = data_movement.take_apart(trace, np.ones(sum(len(operands) for _, operands in trace.events), int))
    counts = {}
    for reads in free:
        key = reads.reader, reads.read if by_value else reads.part
        counts[key] = counts.get(key, 0) + reads.cost
    return counts


@pytest.mark.parametrize("block", BLOCKS)
def test_reads_are_told_apart_where_they_happen(block):
    counts, G, values = counts_of(block), len(net_of(block).block.branches), L * D * B
    affine, activation, combination = PARTS
    assert (counts["forward", activation], counts["backward", activation]) == (values, 5 * values)
    assert tuple(counts[which, combination] // values for which in ("forward", "backward")) == OWN_READS[block]
    # A sum of n products takes 2 n reads for these, and 2 (n − 1); one with a constant 1 is read once.
    assert counts["forward", affine] == G * values * (4 * (D + 1) - 3)
    of_W, of_x, added = 4 * B * D * (D + 1) - 2 * D * (D + 1) - D * B, 4 * G * D - 2, 1 if block == "plain" else 2
    assert counts["backward", affine] == L * G * of_W + values * (of_x + added)
    found = measure(net_of(block), *flows())
    assert sum(reads.cost for reads in found.reads) == found.costs[USUAL]


def test_weights_are_read_where_they_are_used():
    counts = counts_of("highway", by_value=True)
    assert counts["forward", "weights"] == L * 2 * D * (D + 1) * B
    assert counts["backward", "weights"] == L * 2 * D * D * B  # biases hand nothing back
    assert ("forward", "backward") not in counts


def test_what_leaves_and_what_is_not_copied_makes_no_net_dearer():
    for block in BLOCKS:
        found = measure(net_of(block), *flows()).costs
        assert list(found) == list(RULES)
        stays, leaves, stays_free, leaves_free = found.values()
        assert leaves < stays
        assert leaves_free < stays_free
        assert (stays_free == stays) == (leaves_free == leaves) == (COPIES[block] == 0)
        assert stays_free <= stays
        assert leaves_free <= leaves


@pytest.mark.parametrize("block", BLOCKS)
def test_parameters_and_gradients_outlast_the_step_and_nothing_else_does(block):
    for rule, (copies, stays) in RULES.items():
        trace, _, workspace = trace_step(net_of(block), *flows(), copies=copies)
        lasting = {value for value, (label, _) in enumerate(trace.events) if label == ("weights",)}
        lasting |= {scalar.number for scalar in workspace.gradients.blocks.flat}
        assert len(lasting) == 2 * net_of(block).params.blocks.size
        expected = costs(depths(trace.events, None if stays else lasting)).sum()
        assert measure(net_of(block), *flows()).costs[rule] == expected


# --------------------------------------------------------------------------------- what is compared


def test_blocks_of_equal_parameters_have_as_many():
    for width, wider in WIDER.items():
        assert 2 * width * (width + 1) == wider * (wider + 1)
        setting = Setting("parameters", width, 2, 1)
        assert [setting.width_of(block) for block in BLOCKS] == [wider, wider, width]
        assert {Setting("width", width, 2, 1).width_of(block) for block in BLOCKS} == {width}


@pytest.mark.parametrize("smoke", [True, False])
def test_each_setting_is_planned_once_and_the_longest_first(smoke):
    settings = plan(smoke)
    assert len(set(settings)) == len(settings)
    sizes = [setting.width**2 * setting.depth * setting.batch for setting in settings]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("equal", ["width", "parameters"])
@pytest.mark.parametrize("name", VARIED)
def test_one_size_is_varied_at_a_time(name, equal):
    comparisons = made_up_log(dict.fromkeys(RULES, 2.0)).varied(name, equal)
    found = [getattr(comparison.setting, name) for comparison in comparisons]
    assert found == ([SIZES[name]] if equal == "width" and name != "depth" else list(VARIED[name]))
    others = SIZES.keys() - {name}
    assert all(getattr(of.setting, other) == SIZES[other] for of in comparisons for other in others)


def test_a_second_run_traces_nothing(workdir, monkeypatch):
    compared, compare = [], data_movement.compare
    monkeypatch.setattr(data_movement, "SIZES", {"width": 2, "depth": 3, "batch": 1})
    monkeypatch.setattr(data_movement, "WIDER", {2: 3, 3: 4})
    monkeypatch.setitem(VARIED, "width", (2, 3))
    monkeypatch.setattr(data_movement, "compare", lambda *of: compared.append(of[0]) or compare(*of))
    for _ in range(2):
        assert EXPERIMENT.main(["run", "--smoke"]) == 0
        log = EXPERIMENT.read(Path("runs/data_movement-smoke.json"))
        assert [comparison.setting for comparison in log.comparisons] == compared == plan(smoke=True)
    assert (log.dataset, log.bytes) == (None, 4)

    least = log.varied("depth", "width")[0]
    net = least.nets["highway"]
    assert (net.width, net.n_params) == (2, 2 * 2 * 2 * 3)
    assert least.relative("highway") == net.costs[USUAL] / least.nets["plain"].costs[USUAL]


# ----------------------------------------------------------------------------------------- the tables


def made_up_log(costs_of_highway: dict[str, float]) -> DataMovementLog:
    """Nets whose cost is 1,000 · depth^1.5; those of highway blocks cost so many times as much, at equal parameters."""

    def net(block: str, setting: Setting) -> Movement:
        times = costs_of_highway if (block, setting.equal) == ("highway", "parameters") else dict.fromkeys(RULES, 2.0)
        plain = 1000 * setting.depth**1.5 * setting.batch
        found = {rule: round(plain * (1 if block == "plain" else times[rule])) for rule in RULES}
        quarters = [Reads("forward", "affine maps", "weights", found[USUAL] // 4)]
        quarters += [Reads("backward", part, "forward", 3 * found[USUAL] // 8) for part in PARTS[1:]]
        return Movement(setting.width_of(block), 10 * setting.depth, 20, found, quarters)

    comparisons = [Comparison(None, of, {block: net(block, of) for block in BLOCKS}) for of in plan(smoke=False)]
    return DataMovementLog(SCHEMA, "2026-11-20T10:00:00Z", "made up", None, SOME_ENVIRONMENT, 4, comparisons)


def rows(table: str) -> dict[str, list[str]]:
    """Of a Markdown table: the cells by the first one."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {first: others for first, *others in cells}


@pytest.mark.parametrize(
    ("times", "more"),
    [((1.5, 1.25, 1.75, 1.01), 4), ((0.9, 0.8, 0.75, 0.5), 0), ((0.9, 0.8, 1.1, 0.7), 1)],
)
def test_the_table_of_multiples_tells_all_counts(times, more):
    found = rows(data_movement_figures.multiples_table(made_up_log(dict(zip(RULES, times, strict=True)))))
    usual, *others = (f"{multiple:.3f}" for multiple in times)
    settings = 7 + 2 + 5  # depths, other widths, other batches
    span = f"{min(times):.3f} to {max(times):.3f}"
    expected = [*[usual] * 7, *others, span, f"in {more * settings} of {4 * settings}"]
    assert found["equal parameters: 10 a block, highway"] == expected
    assert found["equal width: 14, residual"] == [*["2.000"] * 10, "2.000 to 2.000", "in 28 of 28"]
    assert len(found) == 2 + 4


def test_the_table_of_costs_says_how_they_grow_and_on_what_they_are_spent():
    found = rows(data_movement_figures.costs_table(made_up_log(dict.fromkeys(RULES, 3.0))))
    assert found["plain, 14 wide"] == ["1,280", "20", "1.4", "1.50 to 1.50", "25.0%", "37.5%"]
    assert found["residual, 20 wide"] == ["1,280", "20", "2.9", "1.50 to 1.50", "25.0%", "37.5%"]
    assert len(found) == 2 + 5
