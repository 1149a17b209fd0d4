"""Section 4 on nets like the paper's: do figures 2 to 4 hold for tanh nets from b_T -2 and -4, beside the ReLU net?

The paper's section 4 looks into two nets, the best of its searches: tanh from b_T -2 for MNIST, tanh from b_T -4 for
CIFAR-100. Here tanh nets from both biases stand beside ReLU nets of the best setting of an earlier search of four
epochs. Beside each net stands the one that its training began with, which shows what a bias and chance do without
learning. All is measured on all training images. Ours: the change of a layer is the mean norm of y - x; its class
difference is the mean |mean T of a class - mean T of all|, over classes and units. A layer is idle if closing it
changes the error by less than 0.1 points. (Commit 405c2b5 has two more measures of an idle layer, biases by depth,
ten tanh nets from b_T -6.2, whose setting the search of depth_search chose, and its best net of 100 layers.)

A sentence of the paper is judged on nets of the paper's own setting for MNIST, tanh from b_T -2; what other settings
show is a row of ours, by the same rule. Rules take the 95 % interval over a setting's nets. A sentence on what nets are
is judged as a state, one on what training does beside the nets that it began with. The rules stand at `verdicts`;
"about 60 %" is asked at half, once and twice the threshold of an idle block. All were put in this form after the runs.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from highway_lab.fields import Share, lists_of
from highway_lab.figures import COLORS, FAINT_INK, draw_seeds, new_figure, pale
from highway_lab.intervals import LEVEL, interval
from highway_lab.logs import rounded_all
from highway_lab.training import Training
from highway_networks import LOSSES, Dataset, DeepNet, evaluate, rounded

from ..claims import Verdict, combine, decide, judge_about, judge_as_good, judge_better, require
from ..common_figures import PAPER as PAPER_SETTING
from ..quotes import PAPER
from ..study import Results, StudyRun, Task
from . import measurement, models
from .measurement import CLOSED, IDLE, RARE, SEED, TIMES, idle_share, rises

FIRST, LATE = 15, (15, 45)  # the paper's first layers, and those that it finds idle, counted from 1
ABOUT = 10  # points: margin of "about 60 % of the layers"
NEARLY_ALL = 80  # % of the blocks that count as "any of them": the paper's borders are approximate
SELECTIVE = 10  # points: least rise of the share of selective gates by training
SUBSTANTIAL = 0.01  # least difference of mean T that is substantial, chosen after the data
THRESHOLDS = np.geomspace(0.01, 1, 81)  # points of error, drawn


@dataclass
class Seen:
    """Measures of figures 2 to 4 for one net, on all training images; shares among the `measures` are in %."""

    measures: dict[str, float]
    errors: lists_of(Share, "L+1")  # with each layer closed and, last, with none


@dataclass
class NetSeen:
    """A net, and the one that its training began with; `score`: accuracy on test images."""

    score: Share
    trained: Seen
    untrained: Seen


def see(net: DeepNet, data: Dataset) -> Seen:
    """Measure a net as gate_maps, class_routing and lesions do."""
    images, labels, b_T = data.train_x, data.train_y, net.params["b_T"]
    gates, errors = measurement.measure_gates(net, images), measurement.close_each(net, images, labels)
    groups = np.random.default_rng(SEED).permutation(labels)  # of the same sizes: they show what chance makes
    by_class, by_chance = (abs(measurement.class_differences(net, images, of)[:, :FIRST]) for of in (labels, groups))
    measures = {
        "biases lowered": 100 * np.mean(b_T < net.config["gate_bias"]),
        "mean T": gates.T.mean(),
        "closed": 100 * gates.closed.mean(),
        "closed on average": 100 * np.mean(gates.T < CLOSED),
        "selective": 100 * np.mean((gates.open >= RARE) & (gates.open <= 1 - RARE)),
        "selective, rare ones too": 100 * np.mean((gates.open > 0) & (gates.open < 1)),
        "change in the first": 100 * gates.change[:FIRST].sum() / gates.change.sum(),
        "classes differ": by_class.mean(),
        "groups differ": by_chance.mean(),
    }
    return Seen({name: rounded(value) for name, value in measures.items()}, rounded_all(errors))


def train(task: Task, data: Dataset) -> StudyRun:
    """Load or train a net, and measure it and an untrained one."""
    net, *_ = models.obtain(task, data)
    untrained = Training(task.config, data).net
    _, score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])
    seen = NetSeen(rounded(score), see(net, data), see(untrained, data))
    return StudyRun(None, task, net.params.flat.size, False, {}, seen)


STUDY = models.look_at(NetSeen, models.BY_SETTING, models.SEEDS)


# ---------------------------------------------------------------------------------------- what was found


def measures(seen: Seen) -> dict[str, float]:
    """Return what the page and the verdicts take of a net; shares are in %."""
    (begin, end), points = LATE, 100 * IDLE
    return {
        **seen.measures,
        **{f"idle at {times:g}": idle_share(seen.errors, times * points) for times in TIMES},
        "costly early": 100 * np.mean(rises(seen.errors)[: begin - 1] > points),
        "late change": np.abs(rises(seen.errors)[begin - 1 : end]).mean(),
    }


def verdicts(of: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> dict[str, Verdict]:
    """Judge the sentences by the measures of a setting's nets, an array each, trained and before."""

    def most(name: str) -> Verdict:
        return judge_better(interval(of[name] - 50), 0)

    selective = judge_better(interval(of["selective"] - before["selective"] - SELECTIVE), 0)
    beyond = [of[f"idle at {times:g}"] - PAPER["idle layers"] for times in TIMES]
    any_costs = of["costly early"] >= NEARLY_ALL  # the claim is on every block, so a net fulfils it or not
    return {
        "most biases decrease": most("biases lowered"),
        "sparse": most("closed"),
        "training makes selective": selective,
        "most change in the first": most("change in the first"),
        "few gates a sample": require(most("closed"), selective),
        "classes differ": judge_better(interval(of["classes differ"] - of["groups differ"] - SUBSTANTIAL), 0),
        "closing early ones costs": decide(any_costs.all(), not any_costs.any()),
        "closing late ones does not": judge_as_good(interval(-of["late change"]), 100 * IDLE),
        "about 60 % idle": combine(judge_about(interval(shares), ABOUT) for shares in beyond),
    }


def numbers(results: Results) -> dict:
    """Return what the page quotes, by setting: intervals of the measures, trained and untrained, and verdicts."""
    found = {}
    for cell, nets in results.by_cell().items():
        by_net = [[measures(getattr(net.measured, state)) for net in nets] for state in ("trained", "untrained")]
        of, before = ({of: np.array([net[of] for net in state]) for of in state[0]} for state in by_net)
        found[cell.arm] = {
            "nets": len(nets),
            "start": nets[0].config.gate_bias,
            "trained": {measure: interval(values) for measure, values in of.items()},
            "untrained": {measure: float(values.mean()) for measure, values in before.items()},
            "verdicts": verdicts(of, before),
        }
    limits = {"open": measurement.OPEN, "level": 100 * LEVEL}
    untried = {"CIFAR-100": Verdict.NOT_TESTED}
    return {"of": found, "own": found.get(PAPER_SETTING), "limits": limits, "untried": untried}


def figure(results: Results) -> Figure:
    """Draw the share of idle blocks against the threshold, trained and untrained, a panel a setting."""
    idle, about = 100 * IDLE, PAPER["idle layers"]
    nets_of = {cell.arm: nets for cell, nets in results.by_cell().items()}
    shares = [np.mean([idle_share(net.measured.trained.errors, idle) for net in nets]) for nets in nets_of.values()]
    title = f"Trained: {min(shares):.0f} to {max(shares):.0f} % of the blocks are idle at {idle:g} points"
    figure, grid = new_figure(title, 3.2, ncols=len(nets_of), sharey=True, squeeze=False)
    for axes, (setting, nets) in zip(grid.ravel(), nets_of.items(), strict=True):
        for state, color in (("untrained", FAINT_INK), ("trained", COLORS["highway"])):
            curves = np.array(
                [[idle_share(getattr(net.measured, state).errors, points) for points in THRESHOLDS] for net in nets]
            )
            draw_seeds(axes, THRESHOLDS, curves, label=state, color=color)
        axes.axhspan(about - ABOUT, about + ABOUT, color=pale(COLORS["lstm"], 0.3), linewidth=0, zorder=0)
        axes.axvline(idle, color=FAINT_INK, linewidth=0.8, linestyle=":")
        axes.set(title=setting.replace("from", "from $b_T$"), xscale="log", ylim=(0, 100))
        axes.set_xticks((0.01, 0.1, 1), ("0.01", "0.1", "1"))
        axes.margins(x=0)
    grid[0, 0].set_ylabel("idle blocks (%)")
    figure.supxlabel("threshold of an idle block (points of error)", size=11)
    grid[-1, -1].legend(loc="lower right", handlelength=1, frameon=False, labelcolor="linecolor")
    return figure


FIGURES = {"section_4.png": figure}
