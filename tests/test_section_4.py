"""Section 4 on several nets: what is measured of each, which layers are idle, and the verdicts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from made_up import job
from picture_helpers import committed_log

import highway_lab.logs
from experiments import section_4
from experiments.claims import OURS, Verdict
from experiments.common import load
from experiments.looks import measurement, models
from experiments.section_4 import EXPERIMENT, Section4Log, Seen, deep_net, examine
from experiments.section_4_figures import PAPER, claims, idle_blocks, measures, settings
from highway_lab.training import Training, train_resumably
from highway_networks import as_inputs

LOG = EXPERIMENT.log_path(smoke=True)
REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict


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


def test_every_net_stands_beside_the_one_that_its_training_began_with(log, digits):
    assert [net.source for net in log.nets] == [
        source for seeds in models.by_setting("digits", digits, smoke=True).values() for source in seeds
    ]
    assert len(log.deep) == 1
    for net in (log.nets[1], *log.deep):
        run = train_resumably(net.source.training, digits)
        assert 1 - net.untrained.error == pytest.approx(run.history.train_score[0], abs=1e-6)
        assert 1 - net.trained.error == pytest.approx(run.history.train_score[-1], abs=1e-6)
        assert net.test_score == pytest.approx(run.history.test_score[-1], abs=1e-6)
        assert (net.untrained.gates.biases_decreased, net.untrained.gates.bias_change) == (0, 0)
        assert 0 < net.trained.gates.biases_decreased < 1


def test_lists_are_by_layer_and_lesions_are_those_of_figure_4(log, digits):
    net = log.nets[0]
    untrained = Training(net.source.training, digits).net
    error, loss, flips = measurement.close_each(untrained, digits.train_x, digits.train_y)
    np.testing.assert_allclose(net.untrained.lesioned_error, error[:-1], rtol=1e-6)
    np.testing.assert_allclose(net.untrained.lesioned_loss, loss[:-1], rtol=1e-6)
    np.testing.assert_allclose(net.untrained.flips, flips[:-1], rtol=1e-6)
    for found in (net, *log.deep):
        for seen in (found.trained, found.untrained):
            lists = [value for value in vars(seen).values() if isinstance(value, list)] + [seen.gates.change]
            assert {len(values) for values in lists} == {found.source.training.depth}
    closed = untrained.without(range(untrained.depth)).predict(as_inputs(digits.train_x)).argmax(axis=1)
    assert net.untrained.closed_error == pytest.approx(np.mean(closed != digits.train_y), abs=1e-6)


def test_a_net_from_a_file_stands_beside_one_with_fresh_weights(log, digits, monkeypatch):
    trained = log.nets[0]
    monkeypatch.setattr(section_4, "DEEP", Path(trained.source.file))
    source = deep_net(job(digits))
    assert source.training is None
    seen = examine(source, digits)
    assert (seen.trained, seen.test_score) == (trained.trained, trained.test_score)
    assert seen.untrained.gates.bias_change == 0
    assert seen.untrained.error > 0.8 > seen.trained.error


def made_up(log: Section4Log, rises: list[float], **gates) -> Seen:
    """A net whose error (in points) and loss rise by so much when each layer is closed."""
    seen = log.nets[0].trained
    return replace(
        seen,
        error=0.01,
        loss=0.02,
        lesioned_error=[0.01 + rise / 100 for rise in rises],
        lesioned_loss=[0.02 + rise for rise in rises],
        flips=[abs(rise) / 100 for rise in rises],
        gates=replace(seen.gates, **gates),
        group_difference=[0.5] * 6,
    )


@pytest.fixture
def as_in_the_paper(log) -> Seen:
    """A net that fulfils all claims; its blocks 1 and 2 are early, 3 to 5 late."""
    gates = {"biases_decreased": 0.9, "closed_for_a_sample": 0.9, "selective_beyond_rare": 0.5}
    gates |= {"change": [10.0, 8.0, 1.0, 1.0, 1.0, 1.0], "bias_and_layer": 0.6, "bias_and_mean_T": -0.3}
    return replace(made_up(log, [2.0, 1.5, 0.0, 0.0, 0.0, 0.01], **gates), class_difference=[1.5] * 6)


@pytest.fixture
def otherwise(log) -> Seen:
    """A net that fulfils none."""
    gates = {"biases_decreased": 0.1, "closed_for_a_sample": 0.1, "selective_beyond_rare": 0.0}
    gates |= {"change": [1.0] * 6, "bias_and_layer": 0.6, "bias_and_mean_T": 0.3}
    return replace(made_up(log, [0.0, 0.0, 2.0, 1.5, 1.0, 1.0], **gates), class_difference=[0.505] * 6)


def judged(log: Section4Log, papers: Seen, *ours: Seen, untrained: Seen) -> tuple[list[Verdict], list[Verdict]]:
    """The verdicts on the paper's sentences and on ours, of two nets of the paper's setting and two of each other."""
    trained = dict(zip(settings(log), (*ours[:1], papers, *ours[1:]), strict=True))
    nets = [
        replace(net, trained=trained[setting], untrained=untrained)
        for setting, of in settings(log).items()
        for net in of
    ]
    found = claims(replace(log, nets=nets))
    return tuple([of.verdict for of in found if (of.section == OURS) == ours] for ours in (False, True))


def test_blocks_are_idle_by_the_error_by_the_loss_or_by_flips(log):
    seen = made_up(log, [20.0, 0.19, 0.15, 0.05, -0.15, 0.0])
    by_loss, by_flips = (blocks.tolist() for blocks in idle_blocks(seen, log).values())
    assert by_loss == [False, True, True, True, True, True], "1 % of the costliest is 0.2"
    assert by_flips == [False, False, False, True, False, True]
    seen.flips[3], seen.flips[2] = 0.5, 0.0
    assert idle_blocks(seen, log)["predictions"].tolist() == [False, False, True, False, False, True]
    found = measures(seen, log)
    assert found["idle by 0.1 points, %"] == pytest.approx(100 / 3), "a block that does harm is not idle"
    assert (found["idle by 0.05 points, %"], found["idle by 0.2 points, %"]) == pytest.approx((100 / 6, 500 / 6))
    assert found["costly early blocks, %"] == 100
    assert found["costly late blocks, %"] == pytest.approx(100 / 3)
    assert found["early minus late"] == pytest.approx(20.19 / 2 - 0.05 / 3)


def test_the_papers_sentences_are_judged_in_its_setting_and_ours_by_how_many_of_ours_agree(
    log, as_in_the_paper, otherwise
):
    assert list(settings(log)).index(PAPER) == 1, "between two others"
    good, bad = as_in_the_paper, otherwise
    assert judged(log, good, bad, bad, untrained=bad) == ([REPRODUCED] * 9, [NOT_REPRODUCED] * 9 + [PARTLY] * 3)
    assert judged(log, bad, good, good, untrained=bad) == ([NOT_REPRODUCED] * 9, [REPRODUCED] * 9 + [PARTLY] * 3)
    assert judged(log, good, good, bad, untrained=bad)[1] == [PARTLY] * 12


def test_only_what_training_is_said_to_do_is_judged_beside_untrained_nets(log, as_in_the_paper):
    papers, ours = judged(log, *[as_in_the_paper] * 3, untrained=as_in_the_paper)
    selective, few_gates = 2, 4
    for verdicts in (papers, ours[:9]):
        assert verdicts.pop(few_gates) == verdicts.pop(selective) == NOT_REPRODUCED
        assert {*verdicts} == {REPRODUCED}


def test_nets_that_disagree_are_inconclusive(log, as_in_the_paper, otherwise):
    trained = [as_in_the_paper, otherwise] * 3
    nets = [replace(net, trained=seen, untrained=otherwise) for net, seen in zip(log.nets, trained, strict=True)]
    found = claims(replace(log, nets=nets))
    assert {claim.verdict for claim in found} == {INCONCLUSIVE}
    assert len({claim.paper for claim in found}) == len(found)


@pytest.mark.parametrize(("lost", "verdict"), [(0.0, REPRODUCED), (0.07, PARTLY), (0.3, NOT_REPRODUCED)])
def test_about_60_holds_if_it_does_at_half_and_twice_the_threshold(log, as_in_the_paper, lost, verdict):
    rises = [2.0, 1.5, *[lost] * 4]
    seen = replace(made_up(log, rises), gates=as_in_the_paper.gates)
    papers, _ = judged(log, seen, as_in_the_paper, as_in_the_paper, untrained=as_in_the_paper)
    assert papers[-1] == verdict


def test_a_difference_of_classes_counts_from_the_least_size(log, as_in_the_paper):
    for size, verdict in ((0.511, REPRODUCED), (0.509, NOT_REPRODUCED)):  # random groups differ by 0.5
        seen = replace(as_in_the_paper, class_difference=[size] * 6)
        papers, _ = judged(log, seen, as_in_the_paper, as_in_the_paper, untrained=as_in_the_paper)
        assert papers[5] == verdict


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


LOOKED_INTO = {
    "section_4": lambda log: [net.source for net in log.nets],
    "gate_swaps": lambda log: [net.task.source for net in log.nets],
    "depth_per_example": lambda log: [source for found in log.settings for source in found.setting.sources],
}


@pytest.mark.parametrize("name", LOOKED_INTO)
def test_committed_logs_hold_the_nets_of_each_setting_and_seed(name, as_many_as_mnist, monkeypatch):
    """Nine nets: of ReLU, and of tanh from the paper's two biases."""
    log = load(name).read(committed_log(load(name).log_path()))
    monkeypatch.chdir(ROOT)
    by_setting = models.by_setting("mnist", as_many_as_mnist, smoke=False)
    assert [len(seeds) for seeds in by_setting.values()] == [3, 3, 3]
    assert LOOKED_INTO[name](log) == [source for seeds in by_setting.values() for source in seeds]


def test_the_searched_nets_have_the_best_tanh_setting_from_ten_seeds(as_many_as_mnist, monkeypatch):
    log = EXPERIMENT.read(committed_log(EXPERIMENT.log_path("searched")))
    monkeypatch.chdir(ROOT)
    planned = section_4.searched(job(as_many_as_mnist, "mnist"))
    assert [net.source for net in log.nets] == planned
    assert len({replace(source.training, seed=0) for source in planned}) == 1
    assert log.deep == []
