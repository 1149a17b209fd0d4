"""Every study: its committed log, plan, page, figures and smoke run; and the rules of each at their borders."""

import math
import os
import re
import zlib
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, SOME_ENVIRONMENT, files_below, slashes
from test_pictures import assert_redrawn

from conv_recipes import ConvConfig
from experiments import (
    bias_and_rate,
    blocks_compared,
    constant_gates,
    conv_bias,
    hundred_layers,
    sketch,
    tuned_plain,
    using_depth,
    very_deep,
    what_gates_add,
)
from experiments.__main__ import STUDIES
from experiments.claims import Verdict
from experiments.common import CHANCE_LOSS, load, packed
from experiments.flow import block_gradients
from experiments.quotes import errors
from experiments.study import Cell, Results, Study, StudyRun
from experiments.study_command import StudyLog, train, train_task
from highway_lab.intervals import Estimate, Interval
from highway_lab.training import Training
from highway_networks import DeepNet, as_inputs
from pages import QUOTED

STUDY_OF = {  # by an identifier: a study, the form of it that it is to grow into, too
    f"{name} {form} {ending}".strip(): (name, study)
    for name in STUDIES
    for form, studies in (("", load(name).studies), ("next", load(name).next))
    for ending, study in studies.items()
}
every_study = pytest.mark.parametrize("name", STUDIES)
every_form = pytest.mark.parametrize(("name", "study"), STUDY_OF.values(), ids=STUDY_OF)
PAGES = [
    page
    for page in (ROOT / "README.md", *(ROOT / "experiments").rglob("*.md"), ROOT / "benchmarks" / "README.md")
    if "<!-- quoted from " in page.read_text("utf-8")
]


@cache
def committed(name: str) -> dict[str, StudyLog]:
    """The committed logs of a study, by their endings."""
    experiment, before = load(name), os.getcwd()
    os.chdir(ROOT)
    try:
        return {of: experiment.read(path) for of in experiment.studies if (path := experiment.log_path(of)).exists()}
    finally:
        os.chdir(before)


def results(name: str) -> dict[str, Results]:
    logs = committed(name)
    return {of: Results(study, logs[of].runs if of in logs else []) for of, study in load(name).studies.items()}


# ------------------------------------------------------------------------- logs, pages, pictures, commands


@every_study
def test_a_committed_log_holds_the_runs_that_its_study_asks_for(name):
    texts = "".join(page.read_text("utf-8") for page in PAGES)
    for ending in committed(name):
        of = results(name)[ending]
        assert of.finished, ending
        assert not (of.next_tasks() and of.finished == [*of.study.cells])
        log = re.escape(load(name).log_path(ending).name)
        page = re.search(rf"{log} holds (\d+) runs? that the study no longer asks for", texts)
        assert len(of.superfluous) == int(page[1] if page else 0), ending
        if name != "using_depth":  # which tells of the cells that are finished
            assert not of.next_tasks(), ending


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("what_gates_add", "reach 95.1 %, and", "reach 95.2 %, and"),
        ("what_gates_add", "Where depth does help", "It costs 0.7 points. Where depth does help"),
        ("gradients", "pass on 70 of 71", "pass on 17 of 71"),
        ("depth", "is **not tested** here", "is **reproduced** here"),
        ("using_depth", "with 50 blocks 75.5 %", "with 50 blocks 57.5 %"),
        ("thousand_layers", "sentence is **partly** true", "sentence is **reproduced** true"),
        ("gradients", "highway blocks is **reproduced**", "highway blocks is **not reproduced**"),
        ("thousand_layers", "With 20 blocks nets from", "With 10 blocks nets from"),
        ("swapped_gates", "| 0.71 ± 0.36 |", "| 0.17 ± 0.36 |"),
    ],
)
def test_a_wrong_sentence_on_a_page_is_found(page, before, after, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "experiments" / f"{page}.md").read_text("utf-8")
    assert before in text
    wrong = text[: (at := text.index("<!-- quoted"))].replace(before, after, 1) + text[at:]
    assert errors(wrong, QUOTED)


@pytest.mark.slow
@every_study
@pytest.mark.symlinks
def test_the_figures_of_a_committed_log_come_out_as_they_are(name, workdir):
    if not committed(name):
        pytest.skip("no log of this study is committed yet")
    for needed in ("runs", "models", "run_sweep.json"):  # a page is drawn from its net and from other logs, too
        (workdir / needed).symlink_to(ROOT / needed)
    experiment = load(name)
    logs = [ROOT / experiment.log_path(of) for of in committed(name)]
    assert experiment.main(["plot"]) == 0
    redrawn = files_below(workdir / "viz")
    assert redrawn.keys() == {*experiment.figures}
    for figure, content in redrawn.items():
        assert_redrawn(ROOT / "viz" / figure, content, *logs)
    assert all(log.stat().st_size <= 2_000_000 for log in logs)


@pytest.mark.slow
@every_study
def test_a_smoke_run_ends_in_a_log_that_reads_and_is_drawn(name, my_arm, capsys):
    """With a kind of net of one's own, too, which worker processes learn to know (of one study, for their time)."""
    experiment = load(name)
    ending = "copy" if "copy" in experiment.studies else ""
    words = ["--study", ending] if ending else []
    assert experiment.main(["run", "--smoke", *words]) == 0
    path = Path(f"runs/{name}-smoke{f'-{ending}' * bool(ending)}.json")
    plot = f"{experiment.parser.prog} plot {path}{' --study copy' * bool(ending)}"
    assert slashes(capsys.readouterr().out) == slashes(f"saved {path}\nto see it: {plot}\n")
    assert [*Path("runs").glob("*.json*")] == [path]
    small = experiment.studies[ending].small()
    assert Results(small, experiment.read(path).runs).finished == [*small.cells]
    assert experiment.main(["plot", path.as_posix(), *words]) == 0
    assert {*files_below(Path("viz"))} >= {
        f"{path.stem.removeprefix(f'{name}-')}/{figure}" for figure in experiment.figures
    }
    if experiment.studies[next(iter(experiment.studies))].own is None:  # the study has no size for other kinds of net
        return
    jobs = ["--jobs", "2"] if name == "sketch" else []
    assert experiment.main(["run", "--smoke", *jobs, "--with", "my_arm.py"]) == 0
    own = Path(f"runs/{name}-smoke-with-my_arm.json")
    assert {run.cell.arm for run in experiment.read(own).runs} == {"mine"}
    assert experiment.main(["plot", own.as_posix(), "--with", "my_arm.py"]) == 0


# --------------------------------------------------------------------------------------------- plans


def made(task) -> StudyRun:
    """A run whose measured numbers follow from its task."""
    kind = next(study.measured for _, study in STUDY_OF.values() if type(study.cells[0]) is type(task.cell))
    noise = zlib.crc32(repr(task).encode()) / 2**32
    known = {"clipped": 0.0, "train_loss": 0.1 + noise, "lowest_loss": noise, "score": 0.9 * noise}
    return StudyRun(SOME_ENVIRONMENT, task, 1, False, {}, kind(**{of.name: known.get(of.name) for of in fields(kind)}))


@every_form
def test_no_two_cells_ask_for_the_same_run_and_none_chooses_on_test_samples(name, study):
    first = Results(study, []).next_tasks(least=10**6)
    assert len({*first}) == len(first)
    for cell in study.cells:
        setting = study.grid(cell)[0]
        for stage in study.stages:
            for seed in stage.seeds_of(cell)[:1]:
                config = study.task(cell, stage, setting, seed).config
                assert config.epochs == stage.epochs
                sizes = [of for of in ("hidden", "depth") if hasattr(cell, of)]
                assert [getattr(config, of) for of in sizes] == [getattr(cell, of) for of in sizes]
                validates = isinstance(config, ConvConfig)  # its test images score a result all the same
                assert validates or not (stage.result and config.n_validation)


@pytest.mark.parametrize("name", ["what_gates_add", "hundred_layers"])
def test_deep_nets_that_are_compared_have_as_many_parameters(name):
    study = load(name).next[""]
    cells = [cell for cell in study.cells if cell.depth in (99, 100)]
    sizes = [n_trained(study.task(cell, study.stages[0], study.grid(cell)[0], 100).config, 784) for cell in cells]
    assert max(sizes) <= 1.06 * min(sizes)


def n_trained(config, pixels: int) -> int:
    from highway_networks import Dataset

    data = Dataset(np.zeros((1, pixels)), np.zeros(1, int), np.zeros((1, pixels)), np.zeros(1, int), 10)
    return config.new_net(data, np.random.default_rng(0)).n_trained


def test_nets_of_the_sum_have_as_many_parameters_and_one_unit_more_or_fewer_would_be_further_off():
    for cell in using_depth.CELLS[:-1]:
        like = using_depth.BLOCKS_OF_FIRST if cell.depth < 10 else cell.depth
        wanted = using_depth.n_params(1, using_depth.UNITS, like)
        config = using_depth.STUDY.task(cell, using_depth.STUDY.stages[0], using_depth.STUDY.grid(cell)[0], 100).config
        found = {
            of: abs(n_trained(replace(config, hidden=of), using_depth.PIXELS) - wanted)
            for of in (cell.hidden - 1, cell.hidden, cell.hidden + 1)
        }
        assert min(found, key=found.get) == cell.hidden
        assert found[cell.hidden] < 0.012 * wanted
    assert {len(using_depth.STUDY.grid(cell)) for cell in using_depth.CELLS} == {48}


# ------------------------------------------------------------------------------------------- training


def small_task(name: str, ending: str = "", at: int = 0, result: bool = True):
    study = load(name).studies[ending].small()
    stage = next(of for of in study.stages if bool(of.result) == result)
    return study.task(study.cells[at], stage, study.grid(study.cells[at])[0], stage.seeds_of(study.cells[at])[0])


def test_a_run_that_chooses_sees_no_test_image(digits):
    noise = digits._replace(test_x=255 - digits.test_x, test_y=digits.test_y[::-1].copy())
    for name, score in (
        ("hundred_layers", False),
        ("what_gates_add", True),
        ("using_depth", True),
        ("bias_and_rate", True),
        ("thousand_layers", False),
    ):
        task, train_one = small_task(name, result=False), getattr(load(name).contents, "train", train)
        found, same = (train_one(task, data) for data in (digits, noise))
        assert found == same
        assert (found.measured.score is not None) == score
        assert found.history == {}
        result = small_task(name)
        found, other = (train_one(result, data) for data in (digits, noise))
        assert found.measured != other.measured


def test_a_diverged_run_is_recorded_without_losses(digits):
    task = small_task("hundred_layers", at=3)
    task = replace(task, config=replace(task.config, lr=3e38, clip=0.0))
    run = train_task(hundred_layers.__name__, task, digits)
    assert (run.diverged, run.measured.train_loss, run.measured.score) == (True, None, None)
    assert run.history["train_loss"][-1] is None
    assert hundred_layers.log_loss(run) == math.log10(CHANCE_LOSS)


def test_effective_depth_is_the_sum_over_blocks_of_the_mean_gate(digits):
    task = small_task("using_depth", at=1, result=False)
    task = replace(task, config=replace(task.config, gate_bias=0.0, lr=1e-9))
    assert train(task, digits).measured.effective_depth == pytest.approx(4 * 0.5, rel=0.1)


def test_mean_gates_are_those_of_the_highway_net_of_the_same_seed_for_every_image(digits):
    config = small_task("constant_gates", at=constant_gates.KINDS.index(constant_gates.MEAN)).config
    mean, highway = (Training(of, digits) for of in (config, replace(config, zero="", frozen="", mean_gates=False)))
    for training in (mean, highway):
        for _ in training.epochs():
            pass
    x = as_inputs(highway.data.train_x, np.float32)
    found, expected = (training.net.forward(x)[1].T for training in (mean, highway))  # (L, D, B) each
    assert np.ptp(expected, axis=-1).max() > 0.01
    np.testing.assert_allclose(found, np.broadcast_to(expected.mean(-1, keepdims=True), found.shape), rtol=1e-5)


# ----------------------------------------------------------------------------- the rules at their borders


@pytest.mark.parametrize(
    ("value", "half", "p", "word"),
    [
        (0.0, 0.2, 0.9, "alike"),
        (0.2, 0.05, 0.001, "alike, but ahead"),
        (-0.2, 0.05, 0.001, "alike, but behind"),
        (0.28, 0.05, 0.001, "ahead"),
        (-1.0, 0.1, 0.001, "behind"),
        (1.0, 0.9, 0.06, "inconclusive"),
    ],
)
def test_the_words_of_hundred_layers(value, half, p, word):
    from scipy.stats import t

    assert hundred_layers.word(Estimate(value, half / t.ppf(0.975, 8), 8), p) == word


YES, NO, OPEN, PARTLY = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE, Verdict.PARTLY


def biases_suffice(*scores: list[float]) -> Verdict:
    return bias_and_rate.judge_bias(np.array(scores), np.full((2, 2), 92.0))


def as_good(*leads: float) -> Verdict:
    return blocks_compared.judge_accuracy(Interval(lead, 0.3) for lead in leads)


def gradients_pass(*others: float) -> Verdict:
    near = np.array([-0.01, 0.01])
    return blocks_compared.judge_gradients([1 + near, near - 1], [of + near for of in others])


def gates_compute(*leads: tuple[float, float]) -> Verdict:
    """Of leads over learned constants and mean gates: points, half of the interval."""
    return constant_gates.judge_setting([Interval(*of) for of in leads])


def blog(*scores: float) -> Verdict:
    return tuned_plain.judge_blog(np.array(scores))


@pytest.mark.parametrize(
    ("judge", "given", "verdict"),
    [
        (biases_suffice, ([93.0, 93.2], [94.0, 94.1]), YES),
        (biases_suffice, ([99.0, 99.0], [99.0, 50.0]), NO),  # one net has not learned
        (biases_suffice, ([92.1, 92.1], [92.0, 94.0]), OPEN),
        (biases_suffice, ([92.0, 92.0], [92.0, 92.0]), NO),  # like no blocks
        (as_good, (0.0, -0.1), YES),
        (as_good, (0.0, -1.0), PARTLY),
        (as_good, (-1.0, -1.0), NO),
        (as_good, (-0.5, -0.5), OPEN),
        (gradients_pass, (0, 0), YES),
        (gradients_pass, (0, 3), PARTLY),
        (gradients_pass, (-3, 3), NO),
        (gates_compute, ((0.4, 0.3), (0.7, 0.6)), YES),
        (gates_compute, ((0.4, 0.3), (0.7, 0.8)), OPEN),
        (gates_compute, ((0.4, 0.3), (0.1, 0.3)), NO),  # as good as highway
        (gates_compute, ((0.4, 0.3), (-0.4, 0.3)), NO),
        (gates_compute, ((0.4, 0.3), (0.2, 0.3)), OPEN),
        (blog, (14.9, 12, 11), YES),
        (blog, (10, 10, 15), PARTLY),
        (blog, (15, 31, 32), NO),
        (sketch.judge_share, (0.9,), YES),
        (sketch.judge_share, (0.8,), OPEN),
        (sketch.judge_share, (0.5,), OPEN),
        (sketch.judge_share, (0.4,), NO),
        (sketch.judge_depth, (0.9, 0.1, 1), YES),  # shares of highway nets, of as deep and of shallow plain ones
        (sketch.judge_depth, (1, 0.3, 1), OPEN),
        (sketch.judge_depth, (1, 0.6, 1), NO),
        (sketch.judge_depth, (0.4, 0, 1), NO),
        (sketch.judge_depth, (1, 0, 0.4), NO),
    ],
)
def test_a_rule_at_its_borders(judge, given, verdict):
    assert judge(*given) == verdict


def test_blocks_are_compared_at_equal_width_and_at_equal_parameters_and_their_gradients_measured(digits):
    study = blocks_compared.STUDY
    for depth in blocks_compared.GATE_BIAS:
        sizes = {}
        for cell in (of for of in study.cells if of.depth == depth):
            config = study.task(cell, study.stages[0], study.grid(cell)[0], 100).config
            net = DeepNet(1, 10, hidden=config.hidden, depth=1, block=config.block, rng=np.random.default_rng(0))
            sizes[cell.arm, cell.hidden] = net.params.blocks.size
    of_blocks = [sizes[of] for of in blocks_compared.AS_LARGE.items()]
    assert max(of_blocks) < 1.015 * min(of_blocks)
    flows = blocks_compared.train(small_task("blocks_compared"), digits).measured
    assert flows.untrained != flows.trained
    assert len(flows.trained) == 5


def conv_nets(learn: int, of: int = 10) -> list[StudyRun]:
    """Runs of convolutional nets, of which so many learn; one that diverged does not."""
    runs = [made(small_task("conv_bias")) for _ in range(of)]
    for at, run in enumerate(runs):
        run.measured.score = conv_bias.LEARNED / 100 if at < learn else (0.49, None)[at % 2]
    return runs


@pytest.mark.parametrize(("learn", "verdict"), [([10, 10], YES), ([9, 10], PARTLY), ([9, 9], NO)])
def test_the_guideline_suits_where_all_its_nets_learn(learn, verdict):
    assert conv_bias.suits(map(conv_nets, learn)) == verdict


@pytest.mark.parametrize(("others", "verdict"), [(5, YES), (6, OPEN), (10, OPEN)])
def test_more_nets_learn_if_the_exact_test_says_so(others, verdict):
    assert conv_bias.judge_more(conv_nets(10), conv_nets(others)) == verdict
    assert conv_bias.judge_more(conv_nets(others), conv_nets(10)) == (NO if verdict == YES else OPEN)


def test_lower_blocks_are_those_of_the_first_half():
    first, second = sketch.halves(np.array([[0.3, 0.2, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.2, 0.4]]))
    np.testing.assert_allclose((first, second), ((0.25, 0.1), (0.1, 0.3)))


def test_a_net_keeps_the_gates_that_it_has_learned_and_a_plain_one_has_none(digits):
    task = small_task("sketch", at=2)
    training = Training(task.config, digits)
    for _ in training.epochs():
        pass
    seen = training.net.preprocess(training.data.train_x[: sketch.GATE_IMAGES])
    assert sketch.train(task, digits).measured.opened == pytest.approx(training.net.gate_means(seen), rel=1e-3)
    assert sketch.train(small_task("sketch", at=3), digits).measured.opened is None


@pytest.mark.parametrize(
    ("leads", "ahead", "as_good"),
    [
        ([1, 1, 1, 1], YES, YES),
        ([-2, 1, 1, 1], PARTLY, PARTLY),
        ([-2, -2, -2, -2], NO, NO),
        ([0.4, 0.4, 0.4, 0.4], OPEN, YES),
        ([-0.7, -0.7, -0.7, 1], PARTLY, OPEN),
    ],
)
def test_tuned_nets_are_judged_at_the_depths_that_the_rules_name(leads, ahead, as_good):
    found = {depth: Interval(lead, 0.6) for depth, lead in zip((10, 20, 30, 50), leads, strict=True)}
    extremes = {5: Interval(-9, 0.1), 100: Interval(9, 0.1)}
    assert tuned_plain.judge_lead(found | extremes) == ahead
    assert tuned_plain.judge_parameters(found | extremes, learned=True) == as_good
    assert tuned_plain.judge_parameters(found, learned=False) == OPEN


def test_tuned_nets_stand_with_the_weights_that_validate_best():
    """As does the shallow net that they have to beat."""
    best = {Cell("plain, orthogonal", 50, 50): 0.95, Cell("plain", 71, 50): 0.95, Cell("plain", 71, 2): 0.92}
    found = complete(tuned_plain.STUDY[""], lambda cell, seed: best.get(cell, 0.9 - 0.001 * cell.depth))
    strongest = tuned_plain.strongest(found)
    assert [strongest[kind][50][0].cell.arm for kind in (tuned_plain.PLAIN, tuned_plain.WIDE)] == [
        "plain, orthogonal",
        "plain",
    ]
    assert {run.cell for run in tuned_plain.best_shallow(found)} == {Cell("plain", 71, 2)}


BETTER, ALIKE, WORSE = "outperforms", "as good as", "falls behind"


def test_a_lead_is_paired_by_seed_and_image():
    bits = [packed(np.array(of, np.uint8)) for of in ([255, 0], [240, 15], [15, 240])]
    task = small_task("what_gates_add")
    runs = []
    for seed, right in enumerate(bits):
        of_seed = replace(task, config=replace(task.config, seed=seed, n_test=16))
        runs.append(made(of_seed))
        runs[-1].measured.right = right
    assert what_gates_add.right_images(runs[1]).tolist() == 4 * [1] + 8 * [0] + 4 * [1]
    lead = what_gates_add.compare(runs, runs[::-1])
    assert (lead.value, lead.df) == (0, 2)
    diverged = replace(runs[0], diverged=True, measured=replace(runs[0].measured, score=None, train_loss=None))
    assert what_gates_add.right_images(diverged).tolist() == 16 * [0.1], "it guesses"


def complete(study: Study, score) -> Results:
    """Results of a whole study whose scores follow from the cell and the seed."""
    runs = []
    while tasks := Results(study, runs).next_tasks(least=10**6):
        for task in tasks:
            runs.append(made(task))
            runs[-1].measured.score = score(task.cell, task.config.seed)
    return Results(study, runs)


def test_the_sum_is_judged_within_a_point_and_a_failed_run_counts():
    """Whichever shallow net validates best is compared; a diverged run counts as 10 %."""
    best = {cell: 0.8 for cell in using_depth.CELLS} | {using_depth.FIRST["plain"]: 0.75, using_depth.SHALLOW[2]: 0.83}
    found = complete(using_depth.STUDY, lambda cell, seed: best[cell] + 0.002 * (seed % 5))
    told = using_depth.numbers(found)
    words = {of: word for of, (_, word) in told["compared"].items()}
    assert words == {
        ("residual", 20): ALIKE,
        ("residual, gated", 20): ALIKE,
        ("plain, orthogonal", 20): ALIKE,
        ("plain", 20): BETTER,
        ("highway", 1): WORSE,
    }
    assert len(told["accuracy"]) == 19
    for run in found.scored(using_depth.FIRST["residual"])[:3]:
        run.measured.score = None
    told = using_depth.numbers(found)
    assert told["compared"]["residual", 20][1] == "inconclusive"
    assert sum(told["scores"]["residual", 20, 100] == 10) == 3


def scores(low: float, high: float, spread: float = 1.0) -> dict:
    """Test accuracies in % of three seeds by blocks and gate bias."""
    of = {-40.0: low, -6.0: 90.0, 4.0: high}
    return {depth: {bias: score + spread * np.arange(3) for bias, score in of.items()} for depth in (20, 100)}


@pytest.mark.parametrize(
    ("low", "high", "spread", "extremes", "doubt"),
    [
        (10.0, 10.0, 1.0, "reproduced", "inconclusive"),
        (90.0, 10.0, 1.0, "partly", "reproduced"),
        (10.0, 90.0, 1.0, "partly", "not reproduced"),
        (90.0, 90.0, 1.0, "not reproduced", "inconclusive"),
        (40.0, 40.0, 9.0, "inconclusive", "inconclusive"),
    ],
)
def test_both_extreme_gate_biases_must_fail_and_the_lowest_be_better(low, high, spread, extremes, doubt):
    found = scores(low, high, spread)
    assert very_deep.judge_extremes(found) == extremes
    assert very_deep.judge_doubt(found) == doubt


@pytest.mark.parametrize("bias", very_deep.BIASES)
def test_gradients_of_100_highway_blocks_are_finite_from_every_gate_bias(digits, bias):
    assert np.isfinite(norms_of(digits, 100, gate_bias=bias)).all()


@pytest.mark.parametrize("bias", [-6.0, -20.0])
def test_a_thousand_highway_blocks_pass_the_gradient_and_plain_ones_lose_it(digits, bias):
    first, *_, last = norms_of(digits, 1000, gate_bias=bias)
    assert 0.05 < first / last < 20
    first, *_, last = norms_of(digits, 1000, block="plain")
    assert first / last < 1e-20


def norms_of(digits, depth: int, **options) -> np.ndarray:
    """The norms of an untrained net's gradient over 20 digits, at the input of each block and behind the last."""
    net = DeepNet(64, 10, depth=depth, rng=np.random.default_rng(0), **options)
    _, gradients = block_gradients(net, as_inputs(digits.train_x[:20]), digits.train_y[:20])
    return np.array([np.linalg.norm(dx) for dx in reversed(gradients)])


def test_an_unfinished_study_compares_nothing_that_is_missing():
    told = using_depth.numbers(Results(using_depth.STUDY, []))
    assert (told["compared"], told["accuracy"]) == ({}, {})
    using_depth.figure(Results(using_depth.STUDY, []))
