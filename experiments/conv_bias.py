"""Section 2.2: which gate bias suits a convolutional net of 10, of 20, of 30 layers?

The paper suggests b_T = -1, -2 and -3 for about these depths, "as a general guideline", and shows no numbers for it.
Here every bias is tried at every depth, on table 1's net and two deeper ones of the same kind, beside plain nets. Runs
of one seed share images, batches and the weights' random numbers, so biases are compared seed by seed.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name, "EXPERIMENT.main")

from conv_recipes import ConvConfig
from highway_lab.logs import RunLog
from highway_networks import Dataset

from .common import Experiment
from .conv_runs import FEW_EPOCHS, add_grid, config_of

NETS = {10: "mnist-8", 20: "mnist-8-20", 30: "mnist-8-30"}  # by number of layers: the first, the blocks, the dense one
GUIDELINE = {10: -1.0, 20: -2.0, 30: -3.0}
BIASES = (-1.0, -2.0, -3.0)
SEEDS = (0, 1, 2)
BUDGET = {"epochs": 8, "n_train": 10_000, "n_test": 10_000}

EXPERIMENT = Experiment(__name__, __doc__, RunLog[ConvConfig])


def layers(config: ConvConfig) -> int:
    """Return the depth as the paper counts it: the convolution, the blocks and the dense layer."""
    return config.depth + 2


def configs(data: Dataset, smoke: bool) -> list[ConvConfig]:
    depths, seeds = ((10, 20), SEEDS[:2]) if smoke else (NETS, SEEDS)
    arms = [*({"gate_bias": bias} for bias in BIASES), {"block": "plain"}]
    return [
        config_of(data, NETS[depth], smoke, BUDGET, **FEW_EPOCHS, **arm, seed=seed)
        for depth in sorted(depths, reverse=True)
        for seed in seeds
        for arm in arms
    ]


add_grid(EXPERIMENT, configs)
