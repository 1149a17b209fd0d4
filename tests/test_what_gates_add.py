"""The arms that keep a part of a highway block each: what they compute, what is tried, and how they are compared."""

import math
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import complex_step, small_batch

from experiments.beyond import what_gates_add as wga
from experiments.beyond.blocks_compared import Flow
from experiments.beyond.what_gates_add import ARMS, RIVALS, STUDIES, TUNING_SEEDS, Cell, Setting, Task, Tried
from experiments.beyond.what_gates_add_figures import (
    FIGURES,
    SHALLOW_NET,
    TABLES,
    Compared,
    accuracies,
    arms_figure,
    families,
    first_family,
    name_cell,
    name_setting,
    opened_figure,
    outcomes,
    start_figure,
    survival_in_words,
    use_in_words,
)
from experiments.comparisons import Difference
from highway_lab import Interrupted
from highway_networks import Config, as_inputs, softmax_cross_entropy

BUDGET = {"epochs": 2, "n_train": 256, "n_test": 50, "batch_size": 64, "seed": 1}


def training_of(arm: str, data, activation: str = "tanh", depth: int = 3, **options) -> wga.ArmTraining:
    kind, cell = ARMS[arm], Cell(arm, 8, depth)
    config = wga.configure(cell, wga.candidates(kind, activation, wga.DIGIT)[-2], activation, **BUDGET | options)
    return wga.ArmTraining(kind, config, data)


def trained(training):
    for _ in training.epochs(scored=False):
        pass
    return training.net


@pytest.mark.parametrize("arm", ["ReZero", "ReZero by block"])
def test_a_rezero_net_begins_as_no_blocks_and_moves_one_number_a_unit_or_a_block(digits, arm):
    training = training_of(arm, digits)
    net, x = training.net, as_inputs(digits.test_x)
    cache = net.forward(x)[1]
    np.testing.assert_array_equal(cache.x[-1], cache.x[0])
    trained(training)
    assert not net.params["W_A"].any()
    a = net.params["b_A"]
    assert (a != 0).all()
    assert (len(np.unique(a)) == len(a)) == (arm == "ReZero by block")


def test_the_number_of_a_block_gets_its_derivative_and_counts_once_in_the_norm(digits):
    net = training_of("ReZero by block", digits, dtype="float64").net
    net.params["b_A"][...] = np.array([[0.3], [-0.2], [0.5]])
    x, y = small_batch(d_in=64, d_out=10)
    logits, cache = net.forward(x)
    found = net.backward(softmax_cross_entropy(logits, y)[1], cache)["b_A"]
    exact = type(net)(**net.config | {"dtype": "complex128"}, rng=None)
    exact.params.flat[...] = net.params.flat
    for l, row in enumerate(found):

        def loss(step, l=l):
            exact.params["b_A"][l] = net.params["b_A"][l] + step[0]
            return softmax_cross_entropy(exact.forward(x)[0], y)[0]

        step = np.zeros(1, complex)
        expected = complex_step(lambda loss=loss, step=step: loss(step), step)[0]
        assert np.linalg.norm(row) == pytest.approx(abs(expected), rel=1e-10)
        np.testing.assert_allclose(row * math.sqrt(len(row)), expected, rtol=1e-10)
        exact.params["b_A"][l] = net.params["b_A"][l]


def test_constant_gates_see_no_input_and_are_learned(digits):
    training = training_of("constant gates", digits)
    net, x = training.net, as_inputs(digits.test_x)
    first = net.params["b_T"].copy()
    trained(training)
    T = net.forward(x)[1].T
    assert (T[..., :1] == T).all()
    assert (net.params["b_T"] != first).all()


def test_gates_stay_as_they_were_drawn_and_see_the_input(digits):
    training = training_of("gates as drawn", digits)
    net, x = training.net, as_inputs(digits.test_x)
    first = net.params["W_T"].copy(), net.params["b_T"].copy()
    trained(training)
    np.testing.assert_array_equal(net.params["W_T"], first[0])
    np.testing.assert_array_equal(net.params["b_T"], first[1])
    T = net.forward(x)[1].T
    assert (T[..., :1] != T).any()


def test_identity_weights_begin_as_the_identity_times_the_gain(digits):
    training = training_of("plain, identity", digits)
    np.testing.assert_allclose(training.net.params["W_H"], training.config.init_gain * np.stack([np.eye(8)] * 3))
    assert np.abs(training.net.params["W_in"]).sum() > 0


def test_two_arms_are_never_the_same_net():
    cell = {name: Cell(name, 8, 3) for name in ARMS}
    configs = {
        name: wga.configure(cell[name], wga.candidates(arm, "tanh", wga.DIGIT)[0], "tanh") for name, arm in ARMS.items()
    }
    described = [(config, ARMS[name][3:]) for name, config in configs.items()]
    assert all(described.count(of) == 1 for of in described)


def test_arms_of_as_many_parameters_have_them(digits):
    """A block of 71 units with one matrix has what a highway block of 50 has, and so has one wide block a whole net."""
    sizes = {}
    for name in ("plain", "highway"):
        config = wga.configure(Cell(name, ARMS[name].widths[0], 100), Setting(1e-3, 1.0), "tanh")
        sizes[name] = config.new_net(
            digits._replace(train_x=np.zeros((1, 784))), np.random.default_rng(0)
        ).params.flat.size
    assert sizes["plain"] == pytest.approx(sizes["highway"], rel=0.04)
    for wide in (cell for cell in wga.SHALLOW_CELLS if cell.hidden > wga.WIDE):
        net = Config(block="plain", hidden=wide.hidden, depth=wide.depth).new_net(
            digits._replace(train_x=np.zeros((1, 784))), np.random.default_rng(0)
        )
        assert net.params.flat.size == pytest.approx(sizes["highway"], rel=0.01)
        assert net.params.flat.size <= sizes["highway"]


def test_parameters_are_counted_once_and_only_if_they_are_trained(digits):
    all_of, L, D = training_of("ReZero", digits).net.params.flat.size, 3, 8
    assert training_of("ReZero", digits).net.n_trained == all_of - L * D * D
    assert training_of("ReZero by block", digits).net.n_trained == all_of - L * D * D - L * (D - 1)
    assert training_of("gates as drawn", digits).net.n_trained == all_of - L * D * (D + 1)


def test_relu_nets_begin_with_weights_that_are_normalised_for_them():
    def config(arm: str) -> Config:
        return wga.configure(Cell(arm, 8, 3), wga.candidates(ARMS[arm], "relu", wga.DIGIT)[1], "relu")

    assert {config(arm).init for arm in ARMS} == {"he", "orthogonal"}
    for arm in ("plain, orthogonal", "highway, orthogonal"):
        assert config(arm).init_gain == pytest.approx(math.sqrt(2))
    assert config("plain").init_gain == config("residual, scaled").init_gain == 1.0


# ------------------------------------------------------------------------------------------- the plan


def made_up_run(task: Task) -> wga.ArmRun:
    """A run that is better the nearer its rate is to 8e-4; the highest rate diverges."""
    config, diverged = task.config, task.config.lr == max(wga.RATES)
    score = None if diverged else 0.9 - 0.05 * abs(math.log2(config.lr / 8e-4))
    loss = None if diverged else 1 - score + 1e-3 * (config.seed % 3)
    return wga.ArmRun(None, task, 1, diverged, 0.0, loss, score, None, None, None)


def planned(name: str, base: wga.WhatGatesAddLog | None = None) -> tuple[list[list[Task]], wga.WhatGatesAddLog]:
    """All tasks of a study, list by list, and its log."""
    study, lists = STUDIES[name], []

    def finish(tasks):
        lists.append(tasks)
        return [made_up_run(task) for task in tasks]

    n_validation = wga.N_VALIDATION if study.of == wga.DIGIT else wga.N_VALIDATION_PAIRS
    plan = wga.Plan(study, study.cells, wga.BUDGETS[study.of], n_validation, finish)
    tried = [] if study.settings else plan.tune(base.tried if study.anew else None)
    runs = plan.score(tried, wga.SCORING_SEEDS[: study.seeds])
    if study.unclipped:
        runs += plan.score(tried, wga.SCORING_SEEDS[: study.seeds], clip=0.0)
    return lists, wga.WhatGatesAddLog.new("made up", None, study=name, tried=tried, runs=runs)


@pytest.fixture(scope="module")
def tanh():
    return planned("tanh")


def test_every_cell_tries_28_candidates_and_scores_with_other_seeds_and_other_images(tanh):
    (first, finalists, scored), _ = tanh
    cells = STUDIES["tanh"].cells
    assert len(first) == len(set(first)) == 28 * len(cells) == 28 * len(set(cells))
    assert {task.config.seed for task in first} == {TUNING_SEEDS[0]}
    assert {task.config.seed for task in finalists} == set(TUNING_SEEDS[1:])
    assert not set(TUNING_SEEDS) & {task.config.seed for task in scored}
    for task in first + finalists:
        assert (task.tuning, task.config.n_validation, task.config.n_test) == (True, 2_000, 1)
    for task in scored:
        assert (task.tuning, task.config.n_validation, task.config.n_test) == (False, 0, 10_000)
        assert task.config.lr == 8e-4
    assert {task.cell for task in scored} == set(cells)
    assert {task.config.clip for task in first + scored} == {5.0}
    seeds = {cell: len({task.config.seed for task in scored if task.cell == cell}) for cell in cells}
    assert {cell.arm for cell, n in seeds.items() if n == 20} == {"plain", "highway", *RIVALS}
    assert set(seeds.values()) == {10, 20}


def test_the_sum_is_tuned_on_validation_pairs_and_ranked_by_whole_trainings():
    (first, finalists, scored), log = planned("sum-first")
    assert {task.config.epochs for task in first} == {8}
    assert {task.config.epochs for task in finalists + scored} == {30}
    assert {(task.config.n_test, task.config.n_validation) for task in first + finalists} == {(5_000, 0)}
    assert {(task.config.n_test, task.tuning) for task in scored} == {(10_000, False)}
    cell = scored[0].cell
    short = Tried(*cell, 1e-9, 1.0, "cosine", 8, 100, 0.0, 0.1, 0.999, None)
    assert wga.ranked([*log.tried, short], cell, "accuracy")[0][0].lr == 8e-4, "a short training decides nothing"


def test_gates_may_begin_open_on_the_sum_and_plain_relu_nets_are_tried_near_gain_1():
    assert {of.value for of in wga.candidates(ARMS["highway"], "tanh", wga.SUM)} == {0.0, -1.0, -2.0, -4.0}
    assert {of.value for of in wga.candidates(ARMS["plain"], "relu", wga.DIGIT)} == {*wga.RELU_GAINS}
    for arm in ARMS.values():
        for activation in ("tanh", "relu"):
            assert len(set(wga.candidates(arm, activation, wga.DIGIT))) == 28


def test_a_longer_training_is_tuned_by_its_own_schedule_and_repeated_without_clipping():
    (first, finalists, scored, unclipped), log = planned("tanh-long")
    assert {(task.config.epochs, task.config.schedule) for task in first} == {(20, "cosine")}
    assert {(task.config.epochs, task.config.schedule) for task in finalists + scored} == {(60, "cosine")}
    assert unclipped == [replace(task, config=replace(task.config, clip=0.0)) for task in scored]
    assert {task.arm for task in scored} == {"plain", *wga.COMPARED}
    cell = Cell("highway", 50, 100)
    for clipped in (True, False):
        assert len(wga.scored_runs(log, cell, "accuracy", clipped=clipped)) == 20


def test_a_constant_rate_chooses_among_the_finalists_of_the_short_training(tanh):
    _, base = tanh
    (tasks, _), log = planned("tanh-constant", base)
    assert {(task.config.epochs, task.config.schedule) for task in tasks} == {(60, "constant")}
    for cell in wga.LONG_CELLS:
        best = set(wga.finalists(base.tried, cell, ("accuracy", "loss")))
        assert {of.setting for of in log.tried if of.cell == cell} == best


def test_divergence_counts_as_guessing_by_both_criteria_and_a_loss_of_nothing_as_the_least():
    cell = Cell("plain", 50, 100)

    def tried(lr: float, loss: float | None, score: float | None) -> Tried:
        return Tried(*cell, lr, 1.0, "constant", 12, 100, 0.0, loss, score, None)

    tries = [tried(2e-3, None, None), tried(3e-3, 7.0, 0.1), tried(1e-3, 2.2, 0.15)]
    for criterion in ("accuracy", "loss"):
        ranked = wga.ranked(tries, cell, criterion)
        assert ranked[0][0].lr == 1e-3
        assert ranked[1][1] == ranked[2][1]
    assert wga.counted_loss(0.0) == wga.counted_loss(1e-9) == 1e-6


def test_a_lead_is_paired_by_seed_and_image():
    config = Config(n_test=16, epochs=30)
    scored = []
    for seed, right in enumerate((b"\xff\x00", b"\xf0\x0f", b"\x0f\xf0")):
        task = Task("highway", wga.DIGIT, False, replace(config, seed=seed))
        scored.append(wga.ArmRun(None, task, 1, False, 0, 0.1, 0.5, b64encode(right).decode(), None, None))
    assert wga.right_images(scored[1]).tolist() == 4 * [1] + 8 * [0] + 4 * [1]
    assert wga.compare(scored, scored[::-1], "accuracy") == Difference(0, 0, 2)
    scored[0].right = None
    assert wga.right_images(scored[0]).tolist() == 16 * [0.1], "a diverged run guesses"


def test_the_first_comparisons_are_with_four_rivals_and_the_shallow_net_that_tuning_prefers():
    _, log = planned("tanh-long")
    for of in log.tried:
        if of.cell == Cell("plain", 71, 2) and of.validation_score:
            of.validation_score += 0.01
    found = first_family(log, "loss")
    assert [*found] == [*RIVALS, SHALLOW_NET]
    assert {of.cell.hidden for name, of in found.items() if name in RIVALS} == {71}
    assert wga.best_cell(log, wga.SHALLOW_CELLS[:4], "accuracy") == Cell("plain", 71, 2)


def test_highway_nets_with_a_gain_of_their_own_are_compared_with_nets_without_gates(tanh):
    found = families([tanh[1], planned("gain")[1]])["gain, accuracy"]
    assert [(name, of.cell.hidden) for name, of in found.items()] == [
        ("highway", 50),
        ("constant gates", 71),
        ("residual, scaled", 71),
    ]


@pytest.mark.parametrize(("base", "name"), [("tanh", "wide"), ("tanh-long", "wide-long")])
def test_the_wide_highway_net_is_compared_with_the_best_shallow_and_the_deep_one(base, name):
    (_, wide), (_, deep) = planned(name), planned(base)
    best = Cell("highway", 284, 2)
    for run in wide.runs:
        run.score = 0.95 if run.task.cell == best else 0.9
    for of in wide.tried:
        if of.cell == best and of.validation_score:
            of.validation_score += 0.01
    found = families([deep, wide])[f"{name}, accuracy"]
    assert {name: (of.cell.depth, of.word) for name, of in found.items()} == {
        SHALLOW_NET: (0, "outperforms"),
        "highway": (100, "outperforms"),
    }
    assert all(of.lead.value == pytest.approx(5, abs=1) for of in found.values())


@pytest.mark.parametrize("names", [("wide", "wide-rivals"), ("wide-long", "wide-rivals-long")])
def test_the_wide_highway_net_is_compared_with_the_best_of_each_wide_rival(names):
    found = families([planned(name)[1] for name in names])[f"{names[1]}, accuracy"]
    assert found.keys() == {"residual, scaled", "ReZero", "constant gates"}
    assert {of.cell.hidden for of in found.values()} <= {361, 261}


def family(**words: str) -> dict[str, Compared]:
    """A family whose words are "inconclusive" but for the given ones."""
    names = {"orthogonal": "plain, orthogonal", "scaled": "residual, scaled", "rezero": "ReZero"}
    names |= {"constant": "constant gates", "shallow": SHALLOW_NET, "residual": "residual"}
    return {name: Compared(name, None, None, words.get(key, "inconclusive")) for key, name in names.items()}


BETTER, ALIKE, WORSE = "outperforms", "as good as", "falls behind"
ALL_BETTER = {"orthogonal": BETTER, "scaled": BETTER, "rezero": BETTER, "constant": BETTER, "shallow": BETTER}


@pytest.mark.parametrize(
    ("accuracy", "loss", "pairs", "parts"),
    [
        ({"shallow": BETTER}, {}, {}, []),
        ({}, {}, {}, ["survived"]),
        ({"rezero": ALIKE, "orthogonal": BETTER, "shallow": BETTER}, {}, {}, ["near the identity"]),
        ({"rezero": ALIKE, "orthogonal": ALIKE, "shallow": BETTER}, {}, {}, ["initialisation"]),
        (ALL_BETTER, {}, {}, ["by the data"]),
        (ALL_BETTER | {"constant": ALIKE}, {}, {}, ["need not see the data"]),
        (dict.fromkeys(ALL_BETTER, ALIKE), ALL_BETTER, {}, ["initialisation", "help to fit", "survived"]),
        ({"shallow": BETTER}, {}, {"residual": WORSE}, ["do not use depth"]),
    ],
)
def test_outcomes_are_told_by_the_rules(accuracy, loss, pairs, parts):
    found = outcomes(family(**accuracy), family(**loss), family(**pairs))
    assert len(found) == len(parts)
    for sentence, part in zip(found, parts, strict=True):
        assert part in sentence


def test_the_sum_is_not_studied_where_depth_does_not_help(workdir):
    _, log = planned("sum-first")
    for run in log.runs:
        run.right = b64encode(bytes(1250)).decode()
    assert wga.lead_of_depth(log).value == 0

    one_block = Cell("residual", wga.PAIR_UNITS, 1)
    for of in log.tried:
        if of.cell == one_block and of.validation_score:
            of.validation_score += 0.05
    for run in log.runs:
        if run.task.cell == one_block:
            run.right = b64encode(bytes([255] * 1250)).decode()
    assert wga.lead_of_depth(log).value == -100, "a single block is no depth"


def test_a_study_that_is_missing_is_named_with_the_step_that_makes_it(workdir, refused):
    message = refused(wga.EXPERIMENT.main, ["run", "--smoke", "--study", "sum"])
    assert message.endswith("make it with python -m experiments beyond.what_gates_add run --study sum-first --smoke\n")


def test_tables_show_the_deep_and_the_wide_nets_beside_the_highway_net_that_validates_best(tanh):
    logs = [tanh[1], *(planned(name)[1] for name in ("tanh-long", "wide", "wide-long"))]
    best = {Cell("highway", 284, 2): "wide", Cell("highway", 197, 5): "wide-long"}
    for log in logs:
        for run in log.runs:
            cell, longer = run.task.cell, "long" in log.study
            run.score = (0.9 if best.get(cell) == log.study else 0.8 if cell.arm == "highway" else 0.7) + 0.01 * longer
        for of in log.tried:
            preferred = best.get(of.cell) == log.study or of.cell == Cell("plain", 261, 5)
            of.validation_score = (of.validation_score or 0) + preferred
    deep, wide = (TABLES[f"what_gates_add_{name}"](*logs).splitlines() for name in ("deep", "wide"))
    assert "| highway, 100 blocks of 50 | y = T(x)·H + (1 − T(x))·x | all | 80.0 ± 0.0 |  | 81.0 ± 0.0 |  |" in deep
    assert "| plain, 100 blocks of 71 | y = H | nothing | 70.0 ± 0.0 | -10.00 ± 0.00 |  |  |" in deep
    assert sum("71.0 ± 0.0 | -10.00 ± 0.00, *falls behind* |" in row for row in deep) == 5
    assert [row for row in deep if "blocks of" in row][-1].endswith("|  |  |"), "without the longer training: last"
    assert "| highway, 5 blocks of 197 | 80.0 ± 0.0 | -10.00 ± 0.00 | 91.0 ± 0.0 |  |" in wide
    assert "| highway, 2 blocks of 284 | 90.0 ± 0.0 |  | 81.0 ± 0.0 | -10.00 ± 0.00 |" in wide
    assert sum("71.0 ± 0.0 | -20.00 ± 0.00, *falls behind* |" in row for row in wide) == 1
    assert not [row for row in wide if "100 blocks" in row or "of 71" in row]


def test_highway_and_gated_residual_nets_are_compared_from_the_same_gate_biases():
    lists, log = planned("copy")
    assert [len(tasks) for tasks in lists] == [2 * 3 * 10], "nothing is tuned"
    assert len({(task.arm, *task.setting) for task in lists[0]}) == 2 * 3
    for run in log.runs:
        ahead = run.task.arm == "residual, gated" and run.config.gate_bias > -8
        run.score, run.opened = 0.9 + 0.05 * ahead, [0.5] * 100 if run.config.seed else None  # a diverged one has none
    assert TABLES["what_gates_add_copy"](log).splitlines()[2:5] == [
        "| −8 | 90.0 ± 0.0 | 90.0 ± 0.0 | +0.00 ± 0.00, *as good as* | 50.0 | 50.0 |",
        "| −4 | 90.0 ± 0.0 | 95.0 ± 0.0 | +5.00 ± 0.00, *outperforms* | 50.0 | 50.0 |",
        "| −2 | 90.0 ± 0.0 | 95.0 ± 0.0 | +5.00 ± 0.00, *outperforms* | 50.0 | 50.0 |",
    ]
    for draw in FIGURES.values():
        assert draw(log).get_suptitle() == "No settings were tuned in these runs"


@pytest.mark.parametrize("table", ["deep", "wide", "sum", "copy"])
def test_a_table_without_its_runs_says_so(table):
    assert TABLES[f"what_gates_add_{table}"](planned("gain")[1]).startswith("Nothing yet")


def test_a_log_of_wide_nets_alone_and_one_whose_highway_nets_all_diverged_can_be_drawn(tanh):
    _, wide = planned("wide-long")
    diverged = replace(tanh[1], tried=[replace(of, opened=None) for of in tanh[1].tried])
    for log in (wide, diverged):
        for draw in FIGURES.values():
            draw(log)


def test_the_table_of_the_sum_marks_the_number_of_blocks_that_validates_best():
    _, log = planned("sum-first")
    for of in log.tried:
        if of.cell == Cell("residual", wga.PAIR_UNITS, 20) and of.validation_score:
            of.validation_score += 0.5
    row = next(line for line in TABLES["what_gates_add_sum"](log).splitlines() if line.startswith("| residual"))
    assert [cell.startswith("**") for cell in row.split(" | ")[1:]] == [False] * 5 + [True, False]


def test_a_setting_at_an_end_of_its_grid_is_marked(tanh):
    _, log = tanh
    assert name_setting(log, Cell("highway", 50, 100)) == "0.0008, gate_bias -1†"
    log = replace(log, tried=[of for of in log.tried if (of.lr, of.value) == (wga.RATES[-1], -4.0)])
    assert name_setting(log, Cell("highway", 50, 100)) == "0.0032†, gate_bias -4"


def test_without_shallow_nets_the_title_tells_of_highway_nets_alone():
    _, log = planned("depths")
    assert survival_in_words(log).count("%") == 1


def test_the_title_tells_of_the_number_of_blocks_that_validates_best():
    _, log = planned("sum-first")
    for of in log.tried:
        if of.cell == Cell("residual", wga.PAIR_UNITS, 20) and of.validation_score:
            of.validation_score += 0.5
    for run in log.runs:
        run.score = {20: 0.7, 50: 0.8}.get(run.config.depth, 0.6)
    assert use_in_words([log]).endswith(": residual nets +10.0")


def test_a_direction_is_passed_on_by_its_share_of_the_largest():
    _, log = planned("tanh")
    for run in log.runs:
        run.start = Flow([1.0, 1.0], [200.0, 3.0, 1.0])
    assert start_figure(log).get_suptitle().endswith("plain 2 of 3, highway 2 of 3")


def test_effective_depth_is_drawn_for_each_deep_highway_net_that_did_not_diverge():
    _, log = planned("tanh")
    tried = [of for of in log.tried if of.cell == Cell("highway", wga.NARROW, 100)]
    tried[0].validation_score = None
    for place, of in enumerate(tried):
        of.opened = None if of.validation_score is None else place
    axes, *others = opened_figure(log).axes
    assert not others
    drawn = sorted((x, y) for line in axes.lines[:-1] for x, y in zip(*line.get_data(), strict=True))
    assert drawn == sorted((of.opened, 100 * of.validation_score) for of in tried if of.opened)
    assert axes.lines[-1].get_label() == "residual"


def test_a_longer_training_is_drawn_in_the_row_of_its_net(tanh):
    _, longer = planned("tanh-long")
    axes = arms_figure(tanh[1], longer).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    drawn = {names[int(line.get_ydata()[0])]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"}
    assert drawn == {name_cell(cell): 100 - accuracies(longer, cell).mean() for cell in wga.LONG_CELLS}


@pytest.mark.slow
def test_what_is_compared_is_kept_before_the_runs_without_clipping(workdir, monkeypatch):
    score = wga.Plan.score

    def stopped_later(self, tried, seeds, **options):
        if options:
            raise Interrupted("stopped")
        return score(self, tried, seeds)

    monkeypatch.setattr(wga.Plan, "score", stopped_later)
    assert wga.EXPERIMENT.main(["run", "--smoke", "--study", "tanh-long"]) != 0
    log = wga.EXPERIMENT.read(Path("runs/what_gates_add-smoke-tanh-long.json"))
    assert {run.config.clip for run in log.runs} == {5.0}
    assert [*families([log])] == ["tanh-long, accuracy", "tanh-long, loss"]


@pytest.mark.slow
def test_each_study_runs_and_its_log_can_be_read(workdir):
    for name in STUDIES:
        assert wga.EXPERIMENT.main(["run", "--smoke", "--study", name]) == 0
    logs = {log.study: log for path in Path("runs").glob("*.json") for log in [wga.EXPERIMENT.read(path)]}
    assert logs.keys() == STUDIES.keys()
    for log in logs.values():
        assert len(log.runs) >= len({of.cell for of in log.tried})
        assert all(tabulate(log) for tabulate in TABLES.values())
    assert wga.EXPERIMENT.main(["plot", "runs/what_gates_add-smoke-sum.json"]) == 0
    first = logs["sum-first"]
    first = replace(first, tried=[of for of in first.tried if of.arm != "highway"])  # as the whole study has none
    so_far = logs["tanh"], first
    assert all(make(*so_far) and make(*so_far, logs["sum"]) for make in (*TABLES.values(), *FIGURES.values()))


def test_depths_stand_side_by_side(tanh):
    _, log = planned("depths")
    for run in log.runs:
        if (run.task.arm, run.config.depth) == ("ReZero", 200):
            run.score -= 0.02
    table = TABLES["what_gates_add_depths"]
    assert table(tanh[1]).startswith("Nothing yet")
    header, _, *rows = (line.split("|")[1:-1] for line in table(log).split("\n\n")[0].splitlines())
    assert [words.strip() for words in header[1::2]] == ["50 blocks", "200 blocks"]
    leads = {row[0].strip(): [cell.split()[0] for cell in row[2::2] if cell.strip()] for row in rows}
    expected = {rival: ["+0.0", "-2.0" if rival == "ReZero" else "+0.0"] for rival in wga.RIVALS}
    assert leads == {"highway": [], **expected}
