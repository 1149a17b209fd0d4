"""What the depth sweep, run_sweep.json, tells beside the write-up that this project set out from."""

from pathlib import Path

import numpy as np

from highway_lab.intervals import interval
from highway_lab.logs import RunLog, read
from highway_networks import Config

from .common import CHANCE, group, points

LOG = Path("run_sweep.json")
SKETCH = {  # test accuracies in % of that write-up, of seed 0
    "highway": {5: 90.3, 10: 91.3, 20: 91.0, 30: 92.6, 50: 90.5},
    "plain": {5: 85.7, 10: 29.2, 20: 9.8, 30: 12.4, 50: 12.4},
}
SEEDS = {"highway": (92.6, 90.4, 89.3), "plain": (12.4, 11.9, 11.1)}  # its three seeds of 30 blocks


def numbers() -> dict:
    """Return what pages quote: test accuracies in %, by kind of net and blocks."""
    log = read(LOG, RunLog[Config], "make it with: python highway_networks.py")
    runs = group(log.runs, "block", "depth")
    accuracy = {net: interval(points(of)) for net, of in runs.items()}
    deep = [score for (block, depth), of in runs.items() if block == "plain" and depth >= 20 for score in points(of)]
    opened = [np.array(run.gate_means[-1]) for run in log.runs if run.gate_means]
    return {
        "accuracy": accuracy,
        "row": {
            depth: [depth, *(part for of in SKETCH for part in (*accuracy[of, depth][:2], SKETCH[of][depth]))]
            for depth in SKETCH["plain"]
        },
        "highest": {net: max(points(of)) for net, of in runs.items()},
        "sketch_mean": {of: np.mean(seeds) for of, seeds in SEEDS.items()},
        "sketch_best": {of: max(seeds) for of, seeds in SEEDS.items()},
        "sketch_seeds": len(SEEDS["plain"]),
        "seeds": len({run.config.seed for run in log.runs}),
        "guess": {"deep": sum(score <= 200 * CHANCE for score in deep), "of": len(deep)},
        "upper_higher": sum(T[len(T) // 2 :].mean() > T[: len(T) // 2].mean() for T in opened),
        "gated": len(opened),
        "diverged": sum(run.diverged for run in log.runs),
        "setting": vars(log.runs[0].config),
    }
