"""Section 4 on several nets: what is measured of each, which layers are idle, and the verdicts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from made_up import job
from picture_helpers import committed_log

import highway_lab.logs
from experiments import lesions, models, section_4
from experiments.common import load
from experiments.section_4 import EXPERIMENT, NetSeen, Section4Log, Seen, deep_net, examine
from experiments.section_4_figures import claims, idle_layers, idle_shares, late_minus_early, lesions_table, verdict
from highway_lab.training import Training
from highway_networks import train

LOG = EXPERIMENT.log_path(smoke=True)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """A folder in which a smoke run was made."""
    folder = tmp_path_factory.mktemp("section_4")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert EXPERIMENT.main(["run", "--smoke"]) == 0
    return folder


@pytest.fixture
def log(smoke, monkeypatch) -> Section4Log:
    """The log of that run, whose folder is the working directory."""
    monkeypatch.chdir(smoke)
    return EXPERIMENT.read(LOG)


# ------------------------------------------------------------------------------------- what is measured


def test_every_net_stands_beside_the_one_that_its_training_began_with(log, digits):
    assert [net.source for net in log.nets] == [
        source for seeds in models.by_setting("digits", digits, smoke=True).values() for source in seeds
    ]
    assert len(log.deep) == 1
    for net in (log.nets[1], *log.deep):
        run = train(net.source.training, digits)
        assert 1 - net.untrained.error == pytest.approx(run.history.train_score[0], abs=1e-6)
        assert 1 - net.trained.error == pytest.approx(run.history.train_score[-1], abs=1e-6)
        assert net.test_score == pytest.approx(run.history.test_score[-1], abs=1e-6)
        assert (net.untrained.gates.biases_decreased, net.untrained.gates.bias_change) == (0, 0)
        assert 0 < net.trained.gates.biases_decreased < 1


def test_lists_are_by_layer_and_lesions_are_those_of_figure_4(log, digits):
    net = log.nets[0]
    untrained = Training(net.source.training, digits).net
    error, loss, flips = lesions.measure_layers(untrained, digits.train_x, digits.train_y)
    np.testing.assert_allclose(net.untrained.lesioned_error, error[:-1], rtol=1e-6)
    np.testing.assert_allclose(net.untrained.lesioned_loss, loss[:-1], rtol=1e-6)
    np.testing.assert_allclose(net.untrained.flips, flips[:-1], rtol=1e-6)
    for found in (net, *log.deep):
        for seen in (found.trained, found.untrained):
            lists = [value for value in vars(seen).values() if isinstance(value, list)] + [seen.gates.change]
            assert {len(values) for values in lists} == {found.source.training.depth}


def test_a_net_from_a_file_stands_beside_one_with_fresh_weights(log, digits, monkeypatch):
    trained = log.nets[0]
    monkeypatch.setattr(section_4, "DEEP", Path(trained.source.file))
    source = deep_net(job(digits))
    assert source.training is None
    seen = examine(source, digits)
    assert (seen.trained, seen.test_score) == (trained.trained, trained.test_score)
    assert seen.untrained.gates.bias_change == 0
    assert seen.untrained.error > 0.8 > seen.trained.error


def test_the_deeper_net_has_a_note_below_the_table(log):
    assert "smoke-digits-seed-0.npz, 6 blocks: training error" in lesions_table(log)


# ------------------------------------------------------------------------------------ what is made of it


def made_up(log: Section4Log, rises: list[float], **changed) -> Seen:
    """A net whose error (in points) and loss rise by so much when each layer is closed."""
    seen = log.nets[0].trained
    return replace(
        seen,
        error=0.01,
        loss=0.02,
        lesioned_error=[0.01 + rise / 100 for rise in rises],
        lesioned_loss=[0.02 + rise for rise in rises],
        flips=[abs(rise) / 100 for rise in rises],
        **changed,
    )


def of_nets(log: Section4Log, trained: list[Seen], untrained: Seen) -> Section4Log:
    """A log of two nets of each of the two tanh settings, trained differently by setting."""
    of_tanh = [net for net in log.nets if net.source.training.activation == "tanh"]
    nets = [replace(net, trained=trained[index // 2], untrained=untrained) for index, net in enumerate(of_tanh)]
    return replace(log, nets=nets)


def test_layers_are_idle_by_the_error_by_the_loss_or_by_flips(log):
    seen = made_up(log, [20.0, 0.19, 0.15, 0.05, -0.15, 0.0])
    idle = idle_layers(seen, log)
    assert idle["error"].tolist() == [False, False, False, True, False, True], "a layer that does harm is not idle"
    assert idle["loss"].tolist() == [False, True, True, True, True, True], "1 % of the costliest is 0.2"
    assert idle["flips"].tolist() == idle["error"].tolist()
    seen.flips[3], seen.flips[2] = 0.5, 0.0
    assert idle_layers(seen, log)["flips"].tolist() == [False, False, True, False, False, True]


def test_early_and_late_layers_are_those_that_the_log_names(log):
    seen = made_up(log, [2.0, 0.0, 0.0, 0.0, 2.0, 2.0])
    assert log.late == (3, 5)
    assert idle_shares(seen, log, "error") == pytest.approx((1 / 2, 1 / 2, 2 / 3))
    by_default = replace(log, late=(2, 4))
    assert idle_shares(seen, by_default, "error") == pytest.approx((1 / 2, 0, 1))


def test_late_layers_are_idle_more_often_only_if_seeds_agree(log):
    late, early = made_up(log, [2.0, 2.0, 0, 0, 0, 0]), made_up(log, [0, 0, 2.0, 2.0, 2.0, 2.0])

    def nets(*seen: Seen) -> list[NetSeen]:
        return [replace(log.nets[0], trained=of) for of in seen]

    pairs = ((late, late), (early, early), (early, late), (late,))
    assert [late_minus_early(nets(*seeds), log, "loss").sign for seeds in pairs] == [1, -1, 0, 0]


@pytest.mark.parametrize(
    ("trained", "untrained", "words"),
    [
        ([3, 3, 3], [0, 0, 0], "held"),
        ([3, 3, 3], [0, 3, 1], "held; untrained in 0, 3, 1"),
        ([3, 0, 2], [0, 0, 0], "in 3, 0, 2 of 3 nets"),
        ([1, 0, 0], [3, 3, 3], "in 1, 0, 0 of 3 nets; untrained, too"),
        ([0, 0, 0], [3, 3, 3], "not"),
    ],
)
def test_a_verdict_counts_nets_and_names_the_untrained(trained, untrained, words):
    assert verdict(trained, untrained, 3) == words


def test_claims_hold_of_the_nets_of_which_they_are_true(log):
    def gates(decreased: float, closed: float, selective: float, change: list[float]):
        fields = {"biases_decreased": decreased, "closed_for_a_sample": closed, "selective_beyond_rare": selective}
        return replace(log.nets[0].trained.gates, change=change, **fields)

    early, even, by_chance = [10.0, 8.0, 1.0, 1.0, 1.0, 1.0], [1.0] * 6, [0.5] * 6
    as_in_the_paper = made_up(
        *(log, [2.0, 1.5, 0.0, 0.0, 0.0, 0.0]),
        gates=gates(0.9, 0.9, 0.5, early),
        class_difference=[1.5, 1.5, 1.0, 1.0, 1.0, 1.0],
        group_difference=by_chance,
    )
    otherwise = made_up(
        *(log, [0.0, 0.0, 2.0, 1.5, 1.0, 1.0]),
        gates=gates(0.1, 0.1, 0.0, even),
        class_difference=[0.9, 1.5, 9.0, 9.0, 9.0, 9.0],
        group_difference=by_chance,
    )
    *found, order, by_error, by_loss = claims(of_nets(log, [as_in_the_paper, otherwise], otherwise))
    assert [claim.verdict for claim in found] == ["in 2, 0 of 2 nets"] * 5
    assert found[0].here == "tanh, b_T -2: 90 ± 0% (untrained 10); tanh, b_T -4: 10 ± 0% (untrained 10)"
    assert "3 ± 0 times random groups' (untrained 2)" in found[4].here
    assert order.verdict == "in 1 of 2 settings"
    assert "tanh, b_T -2: +" in order.here
    assert "; tanh, b_T -4: -" in order.here
    assert {claim.verdict for claim in (by_error, by_loss)} == {"in 2, 0 of 2 nets"}, "67 % are idle, or 33 %"

    of_all = claims(of_nets(log, [as_in_the_paper] * 2, otherwise))
    assert {claim.verdict for claim in of_all} == {"held"}
    of_none = claims(of_nets(log, [otherwise] * 2, as_in_the_paper))
    assert [claim.verdict for claim in of_none[:5]] == ["not"] * 5
    of_both = claims(of_nets(log, [as_in_the_paper] * 2, as_in_the_paper))
    assert of_both[2].verdict == "not", "no more selective than untrained"
    assert of_both[3].verdict == "held; untrained, too"
    assert len({claim.paper for claim in of_all}) == len(of_all)


def test_a_smoke_run_leaves_the_nets_of_whole_runs_alone(digits):
    whole, smoke = (
        {source.file for seeds in models.by_setting("digits", digits, smoke).values() for source in seeds}
        for smoke in (False, True)
    )
    assert not whole & smoke


def test_a_net_of_other_training_code_is_trained_anew(digits, workdir, monkeypatch):
    source = models.by_setting("digits", digits, smoke=True)["tanh, b_T -2"][0]
    trained = []
    monkeypatch.setattr(models, "Training", lambda *of: trained.append(Training(*of)) or trained[-1])
    for code in ("a", "a", "b"):
        here = replace(highway_lab.logs.environment(), code=code)
        monkeypatch.setattr(models, "environment", lambda here=here: here)
        models.obtain(source, digits)
    kept = [path.stem for path in models.CHECKPOINTS.glob("*-training-*")]
    assert len(kept) == 2
    assert [training.optimizer.v.any() for training in trained] == [True] * 3


# ------------------------------------------------------------------------------------- the committed logs

LOOKED_INTO = {
    "section_4": lambda log: [net.source for net in log.nets],
    "gate_swaps": lambda log: [net.task.source for net in log.nets],
    "beyond.depth_per_example": lambda log: [source for found in log.settings for source in found.setting.sources],
}


@pytest.mark.parametrize("name", LOOKED_INTO)
def test_committed_logs_hold_the_nets_of_each_setting_and_seed(name, as_many_as_mnist, monkeypatch):
    """Nine nets: of ReLU, and of tanh from the paper's two biases."""
    log = load(name).read(committed_log(load(name).log_path()))
    monkeypatch.chdir(ROOT)
    by_setting = models.by_setting("mnist", as_many_as_mnist, smoke=False)
    assert [len(seeds) for seeds in by_setting.values()] == [3, 3, 3]
    assert LOOKED_INTO[name](log) == [source for seeds in by_setting.values() for source in seeds]
