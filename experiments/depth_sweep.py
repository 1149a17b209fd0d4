"""What the depth sweep, run_sweep.json, tells beside the write-up that this project set out from."""

import numpy as np

from highway_lab.intervals import difference, interval
from highway_lab.logs import RunLog, read
from highway_networks import Config

from .claims import Verdict, combine
from .common import CHANCE, by_config, points

SKETCH = {  # test accuracies in % of that write-up, of seed 0
    "highway": {5: 90.3, 10: 91.3, 20: 91.0, 30: 92.6, 50: 90.5},
    "plain": {5: 85.7, 10: 29.2, 20: 9.8, 30: 12.4, 50: 12.4},
}
SEEDS = 92.6, 90.4, 89.3  # of its highway nets of 30 blocks


def numbers() -> dict:
    """Return what pages quote: test accuracies in %, by kind of net and blocks."""
    headline, log = (read(path, RunLog[Config], "restore it") for path in ("run.json", "run_sweep.json"))
    scores = {net: points(runs) for net, runs in by_config(log.runs, "block", "depth").items()}
    accuracy, depths = {net: interval(of) for net, of in scores.items()}, [*SKETCH["plain"]]
    deep = [score for (block, depth), of in scores.items() if block == "plain" and depth >= 20 for score in of]
    over_shallow = {at: difference(scores["highway", at], scores["highway", depths[0]]) for at in depths[1:]}
    gates = [np.array_split(run.gate_means[-1], 2) for run in log.runs if run.gate_means]
    return {
        "depths": depths,
        "accuracy": accuracy,
        "row": {at: [at, *(n for of in SKETCH for n in (*accuracy[of, at], SKETCH[of][at]))] for at in depths},
        "over_shallow": over_shallow,
        "sketch_range": max(SKETCH["highway"].values()) - min(SKETCH["highway"].values()),
        "flat": combine(
            Verdict.NOT_REPRODUCED if fall.high < 0 else Verdict.REPRODUCED for fall in over_shallow.values()
        ),
        "lowest": min(min(scores["highway", depth]) for depth in depths),
        "sketch_seeds": SEEDS,
        "headline": {run.config.block: points([run]).item() for run in headline.runs},
        "seeds": len({run.config.seed for run in log.runs}),
        "guess": [bool(score <= 200 * CHANCE) for score in deep],
        "upper_higher": [bool(np.mean(upper) > np.mean(lower)) for lower, upper in gates],
        "setting": vars(log.runs[0].config),
    }
