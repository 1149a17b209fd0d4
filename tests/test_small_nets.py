"""Small nets that the article suggests: which are trained, and their table."""

from collections import Counter

import made_up
from picture_helpers import cells

from experiments.beyond import small_nets
from experiments.beyond.small_nets_figures import TABLES, figure
from highway_lab.logs import DatasetInfo
from highway_networks import Config


def test_each_net_is_trained_with_each_seed(digits, monkeypatch, workdir):
    trained = []
    monkeypatch.setattr(small_nets, "SEEDS", range(3))
    job = made_up.job(digits)
    monkeypatch.setattr(type(job), "train", lambda _, configs: trained.extend(configs))
    monkeypatch.setattr(type(job), "keep", lambda *_, **__: None)
    small_nets.run(job)
    assert len({*trained}) == len(trained) == 3 * len(small_nets.NETS)
    assert Counter(config.seed for config in trained) == dict.fromkeys(range(3), len(small_nets.NETS))
    assert all((config.hidden, config.n_train, config.n_test) == (20, 1437, 360) for config in trained)


def test_the_table_shows_mean_and_range_of_each_net():
    nets = [Config(block="plain", depth=1, init="glorot"), Config(depth=50, gate_bias=-4.0)]
    scores = {0: (0.9, 0.96), 1: (0.1, 0.3)}
    runs = [
        made_up.trained_run(Config(**vars(net) | {"seed": seed}), [0.1, score])
        for i, net in enumerate(nets)
        for seed, score in enumerate(scores[i])
    ]
    log = made_up.log(small_nets.SmallNetsLog, DatasetInfo("digits", 1437, 360), runs=runs)
    first, second = cells(TABLES["small_nets"](log))[1:]
    assert (first[0], *first[3:]) == ("plain, 1 block, normalised, rate 0.005", "90.0", "96.0")
    assert (second[0], *second[3:]) == ("highway, 50 blocks, uniform, b_T −4, rate 0.005", "10.0", "30.0")
    assert second[2].startswith("20.0")
    (axes,) = figure(log).axes
    assert axes.get_yticklabels()[0].get_text() == first[0]
