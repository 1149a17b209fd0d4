"""Plain and highway nets tuned alike: what is tried, what is chosen, and by which rules it is judged."""

from dataclasses import replace

import pytest

from experiments import tuned_plain as tp
from experiments.tuned_plain_figures import blog_claims, claims
from highway_networks import BLOCKS, Config

CELLS = len(tp.ARMS) * len(tp.DEPTHS) - 2  # without blocks a highway net is a plain net
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 2_000}


def scored(config: Config, *, test: float | None = None, validation: float | None = None) -> tp.ScoredRun:
    """A made-up run; without a score it has diverged."""
    return tp.ScoredRun(None, config, 100, test is None and validation is None, 0.1, test, validation)


@pytest.fixture(scope="module")
def chosen(as_many_as_mnist):
    """What is tried and chosen where one start of each kind does best at 5e-4, b_T -6 better still; by stage."""
    stages = []

    def finish(configs: list[Config]) -> list[tp.ScoredRun]:
        stages.append(configs)
        good = {("glorot", 1.0), ("orthogonal", 1.05)}
        worth = [
            0.5 + 0.2 * ((c.init, c.init_gain) in good) + 0.1 * (c.lr == 5e-4) + 0.01 * (c.gate_bias == -6)
            for c in configs
        ]
        return [scored(config, validation=score) for config, score in zip(configs, worth, strict=True)]

    return stages, *tp.choose(finish, as_many_as_mnist, smoke=False)


def test_every_setting_is_tried_once_and_the_best_with_all_choosing_seeds(chosen):
    (first, finalists, biases), tried, _ = chosen
    keys = [(tp.arm_of(config), config.depth, tp.setting_of(config)) for config in first]
    assert len(set(keys)) == len(keys) == CELLS * 3 * len(tp.RATES)
    assert {config.seed for config in first} == {tp.CHOOSING_SEEDS[0]}
    assert len(finalists) == CELLS * tp.FINALISTS * 2
    assert {config.seed for config in finalists} == set(tp.CHOOSING_SEEDS[1:])
    assert len(biases) == 2 * (len(tp.DEPTHS) - 1) * len(tp.GATE_BIASES) * 3
    assert {config.block for config in biases} == {"highway"}
    assert len({*first, *finalists, *biases}) == len(tried)
    assert not set(tp.CHOOSING_SEEDS) & set(tp.SEEDS)
    for config in first + finalists + biases:
        assert (config.n_train, config.n_validation, config.n_test, config.epochs) == (6_000, 2_000, 1, 12)


def test_the_best_setting_is_chosen_and_b_T_for_highway_nets_alone(chosen):
    _, _, best = chosen
    assert best.keys() == {(arm, depth) for arm in tp.ARMS for depth in tp.DEPTHS if depth or arm.block == "plain"}
    for (arm, _), setting in best.items():
        start = ("orthogonal", 1.05) if arm.orthogonal else ("glorot", 1.0)
        assert setting == tp.Setting(*start, 5e-4, -6.0 if arm.block == "highway" else -2.0)


def test_test_images_are_seen_by_the_chosen_and_the_untuned_setting_alone(chosen, as_many_as_mnist):
    _, _, best = chosen
    runs = tp.plan_measurement(as_many_as_mnist, False, best)
    untuned = 2 * sum(depth >= tp.UNTUNED_FROM for depth in tp.DEPTHS)
    assert len(runs) == len(set(runs)) == (CELLS + untuned) * len(tp.SEEDS)
    for config in runs:
        allowed = {best[tp.arm_of(config), config.depth]} | ({tp.UNTUNED} if config.hidden == 50 else set())
        assert tp.setting_of(config) in allowed
        assert (config.n_validation, config.n_test, config.n_scored) == (0, 2_000, 0)


def test_a_setting_that_is_already_the_untuned_one_is_run_once(as_many_as_mnist):
    runs = tp.plan_measurement(as_many_as_mnist, False, {(tp.HIGHWAY, 30): tp.UNTUNED})
    assert runs == tp.configure(tp.HIGHWAY, 30, tp.UNTUNED, tp.SEEDS, BUDGET)
    assert runs[0] == Config(seed=0), "the sweep's setting is the default"


def test_more_seeds_outrank_a_higher_score_and_divergence_is_chance():
    def tries(lr: float, *scores: float | None) -> list[tp.TriedSetting]:
        return [tp.TriedSetting("plain", 50, 10, "he", 1.0, lr, -2.0, seed, score) for seed, score in enumerate(scores)]

    tried = [*tries(0.1, 0.99), *tries(0.2, 0.8, 0.6), *tries(0.3, 0.9, None), *tries(0.4, 0.9, 0.52)]
    assert [setting.lr for setting in tp.rank_settings(tried)[tp.PLAIN, 10]] == [0.4, 0.2, 0.3, 0.1]


def test_the_wide_plain_block_has_as_many_parameters_as_the_highway_block():
    sizes = {arm: BLOCKS[arm.block].rows(arm.hidden) * (arm.hidden + 1) for arm in tp.ARMS}
    assert sizes[tp.WIDE] == pytest.approx(sizes[tp.HIGHWAY], rel=0.01)
    assert sizes[tp.HIGHWAY] == 2 * sizes[tp.PLAIN]


def test_a_run_that_chooses_keeps_its_validation_score(digits):
    config = Config(depth=2, hidden=8, epochs=2, n_train=100, n_test=50)
    assert tp.run_config(config, digits).validation_score is None
    run = tp.run_config(replace(config, n_validation=60), digits)
    assert run.validation_score * 60 == pytest.approx(round(run.validation_score * 60), abs=1e-3)
    diverged = tp.run_config(
        replace(config, block="residual", activation="relu", optimizer="momentum", lr=1e9, clip=0.0), digits
    )
    assert (diverged.diverged, diverged.test_score) == (True, None)


def made_up_log(highway: list[float], plain: list[float], wide: list[float]) -> tp.TunedPlainLog:
    """A log of these mean accuracies at 10, 20, 30 and 50 blocks, over seeds that differ by 0.3 points."""
    tried, runs, setting = [], [], tp.Setting("he", 1.0, 0.001, -2.0)
    for arm, means in {tp.HIGHWAY: highway, tp.PLAIN: plain, tp.WIDE: wide}.items():
        for depth, mean in zip((10, 20, 30, 50), means, strict=True):
            tried += [tp.TriedSetting(arm.block, arm.hidden, depth, *setting, 100, 0.9)]
            configs = tp.configure(arm, depth, setting, (0, 1, 2), BUDGET)
            runs += [scored(config, test=mean + 0.003 * (config.seed - 1)) for config in configs]
    return tp.TunedPlainLog.new("made up", None, tried=tried, runs=runs)


@pytest.mark.parametrize(
    ("highway", "plain", "wide", "lead", "parameters"),
    [
        ([0.9, 0.9, 0.9, 0.9], [0.8, 0.8, 0.8, 0.8], [0.9, 0.9, 0.9, 0.8], "reproduced", "reproduced"),
        ([0.9, 0.9, 0.9, 0.9], [0.9, 0.9, 0.9, 0.8], [0.8, 0.8, 0.8, 0.9], "partly", "not reproduced"),
        ([0.8, 0.8, 0.8, 0.8], [0.8, 0.8, 0.8, 0.8], [0.8, 0.8, 0.7, 0.8], "not reproduced", "partly"),
        ([0.8, 0.8, 0.8, 0.8], [0.8, 0.8, 0.8, 0.795], [0.79, 0.79, 0.79, 0.9], "inconclusive", "inconclusive"),
        ([0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1], "not reproduced", "inconclusive"),
    ],
)
def test_verdicts_follow_the_rules(highway, plain, wide, lead, parameters):
    found = claims(made_up_log(highway, plain, wide))
    assert [claim.verdict for claim in found] == [lead, parameters]
    assert found[0].why.startswith("It holds at 50 blocks; it does not hold at 10, 20 and 30") == (lead == "partly")
    assert found[1].why.startswith("It holds at 10 and 20 blocks; it does not hold at 30 b") == (parameters == "partly")


def test_a_net_is_judged_with_the_initial_weights_that_validate_best():
    log = made_up_log(*[[0.9] * 4] * 3)
    for orthogonal, score, test in (
        (tp.PLAIN._replace(orthogonal=True), 0.95, 0.9),
        (tp.WIDE._replace(orthogonal=True), 0.85, 0.5),
    ):
        for depth in (10, 20, 30, 50):
            setting = tp.Setting("orthogonal", 1.05, 0.001, -2.0)
            log.tried += [tp.TriedSetting(orthogonal.block, orthogonal.hidden, depth, *setting, 100, score)]
            log.runs += [
                scored(config, test=test) for config in tp.configure(orthogonal, depth, setting, (0, 1, 2), BUDGET)
            ]
    best = tp.strongest(log.tried)
    assert best[tp.PLAIN, 50] == tp.PLAIN._replace(orthogonal=True)
    assert best[tp.WIDE, 50] == tp.WIDE
    assert claims(log)[1].measured.count("+0.0") == 3, "the wide nets with older weights"


def test_the_shallow_level_is_chosen_by_validation_among_plain_nets_of_at_most_two_blocks():
    assert tp.best_shallow(made_up_log(*[[0.9] * 4] * 3).tried) is None
    scores = {(tp.PLAIN, 1): 0.91, (tp.WIDE, 2): 0.92, (tp.WIDE, 5): 0.99, (tp.HIGHWAY, 1): 0.99}
    tried = [
        tp.TriedSetting(arm.block, arm.hidden, depth, "glorot", 1.0, 0.001, -2.0, 100, score)
        for (arm, depth), score in scores.items()
    ]
    assert tp.best_shallow(tried) == (tp.WIDE, 2)


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [([0.11, 0.12, 0.11], "reproduced"), ([0.1, 0.1, 0.4], "partly"), ([0.3, 0.31, 0.32], "not reproduced")],
)
def test_the_blogs_plain_nets_are_judged_each_alone(scores, verdict):
    runs = [scored(Config(block="plain", seed=seed), test=score) for seed, score in enumerate(scores)]
    (claim,) = blog_claims(runs, runs)
    assert claim.verdict == verdict
    assert blog_claims([], runs) == []
