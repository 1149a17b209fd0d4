"""Pictures and tables of which biases, rates, activations and initialisations let 50 blocks train."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import final, seeds_of
from highway_lab.figures import FAINT_INK, markdown, new_figure
from highway_lab.intervals import interval

from .bias_and_rate import BiasAndRateLog, arm
from .claims import Claim
from .common import CHANCE, TrainedRun, final_values, group, group_by, points
from .common_figures import draw_chance, minus, shade, title
from .rates import edge_note

ASKED = (-2.0, 5e-3)  # the bias and the rate from which 50 blocks fall behind
LOWER = RATE, BIAS, BOTH = (-2.0, 1e-3), (-6.0, 5e-3), (-6.0, 1e-3)  # named by what is lower than in ASKED
CONTRASTS = ((RATE, ASKED), (BIAS, ASKED), (BOTH, ASKED), (BOTH, RATE), (BOTH, BIAS))
LEARNT = 0.5  # test accuracy above which a net has learned something: chance is about 0.11
STRENGTHS = {0.0: 0.25, -2.0: 0.5, -4.0: 0.75, -8.0: 1.0}  # of the line's colour, by bias


def rate_figure(log: BiasAndRateLog) -> Figure:
    """Draw mean test accuracy, a row a bias, a column a rate; below it the standard deviation over seeds."""
    cells, biases, rates = rate_grid(log)
    figure, axes = new_figure(title(log.dataset, log.by_rate, f"{depth_of(log.by_rate)} highway blocks"), 4.0)
    scores = np.array([[final_values(cells[bias, lr], "test_score") for lr in rates] for bias in biases])
    means = scores.mean(axis=-1)
    image = axes.imshow(np.nan_to_num(means), aspect="auto", vmin=0, vmax=1)
    for (row, column), mean in np.ndenumerate(means):
        sd = f"\n± {scores[row, column].std(ddof=1):.3f}" if scores.shape[-1] > 1 else ""
        color = "black" if mean > 0.6 else "white"
        axes.text(column, row, f"{mean:.3f}{sd}", color=color, size=9, ha="center", va="center")
    axes.set(xlabel="learning rate", ylabel="initial gate bias $b_T$")
    axes.set_xticks(range(len(rates)), [f"{lr:g}" for lr in rates])
    axes.set_yticks(range(len(biases)), [minus(bias) for bias in biases])
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="test accuracy", aspect=30)
    return figure


def rate_grid(log: BiasAndRateLog) -> tuple[dict[tuple, list[TrainedRun]], list[float], list[float]]:
    """Return the runs by (bias, rate), the biases from the highest, the rates from the lowest."""
    cells = group(log.by_rate, "gate_bias", "lr")
    return cells, sorted({bias for bias, _ in cells}, reverse=True), sorted({lr for _, lr in cells})


def init_figure(log: BiasAndRateLog) -> Figure:
    """Draw the test accuracy of every seed: a panel an activation, initialisations side by side, a colour a start."""
    by_activation = group(log.by_init, "activation")
    words = f"{depth_of(log.by_init)} blocks (grey: none), rate of each chosen"
    figure, panels = new_figure(
        title(log.dataset, log.by_init, words), 4.4, ncols=len(by_activation), sharey=True, squeeze=False
    )
    for axes, ((activation,), runs) in zip(panels[0], by_activation.items(), strict=True):
        inits = list(dict.fromkeys(run.config.init for run in runs))
        starts = sorted(group(runs, "block", "gate_bias", "depth").items(), reverse=True)
        for place, (start, of_start) in enumerate(starts):
            shift = 0.14 * (place - (len(starts) - 1) / 2)
            x = [inits.index(run.config.init) + shift for run in of_start]
            color = shade(*start[:2], STRENGTHS) if start[-1] else FAINT_INK
            style = {"color": color, "marker": "o", "markersize": 4, "linestyle": "none", "clip_on": False}
            axes.plot(x, np.nan_to_num(final_values(of_start, "test_score")), label=name_start(*start), **style)
        draw_chance(axes, log.dataset.name)
        axes.set(title=activation, ylim=(0, 1))
        axes.set_xticks(range(len(inits)), inits, size=9)
    panels[0, 0].set_ylabel("test accuracy")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), loc="outside lower center", frameon=False, handletextpad=0.2)
    return figure


def depth_of(runs: list[TrainedRun]) -> int:
    """Return the depth of the nets that have blocks."""
    return max(run.config.depth for run in runs)


def name_start(block: str, bias: float, depth: int) -> str:
    """Return the name of a start."""
    return "no blocks" if not depth else block if block == "plain" else f"b_T {minus(bias)}"


def rate_table(log: BiasAndRateLog) -> str:
    """Tabulate final test accuracy by bias and rate."""
    cells, biases, rates = rate_grid(log)
    rows = [[f"{bias:g}", *(final(cells[bias, lr], "test_score") for lr in rates)] for bias in biases]
    table = markdown(["b_T", *(f"lr {lr:g}" for lr in rates)], rows)
    seeds = seeds_of(run.config for run in log.by_rate)
    return f"{table}\n\nTest accuracy of {depth_of(log.by_rate)} blocks. {seeds} {describe_gains(cells)}"


def describe_gains(cells: dict[tuple, list[TrainedRun]]) -> str:
    """Describe the gains of a lower rate, a lower bias and both where 50 blocks fall behind; "" for a smoke run."""
    if not {ASKED, *LOWER} <= cells.keys():
        return ""
    gains = (
        f"b_T {b:g}, lr {lr:g} over {than[0]:g}, {than[1]:g} {interval(points(cells[b, lr]) - points(cells[than]))}"
        for (b, lr), than in CONTRASTS
    )
    return (
        f"Points, seed by seed, with 95 % intervals (t; a run that diverged counts as {CHANCE:.0%}): "
        f"{'; '.join(gains)}."
    )


def init_table(log: BiasAndRateLog) -> str:
    """Tabulate final test accuracy by activation and initialisation, with the chosen rate, a column a start."""
    cells = group_by(log.by_init, arm)
    starts = sorted({key[2:] for key in cells}, key=lambda start: (start[0] == "plain", -start[1], -start[2]))
    rows = []
    for pair in dict.fromkeys(key[:2] for key in cells):
        runs = (cells[*pair, *start] for start in starts)
        rows.append([*pair, *(f"{final(of, 'test_score')} (lr {of[0].config.lr:g})" for of in runs)])
    header = ["activation", "initialisation", *(name_start(*start) for start in starts)]
    edges = edge_note(log.tried, log.by_init, arm, lambda *arm: " ".join([*arm[:2], name_start(*arm[2:])]))
    seeds = seeds_of(run.config for run in log.by_init)
    return f"{markdown(header, rows)}\n\nTest accuracy of {depth_of(log.by_init)} blocks. {seeds} {edges}"


def claims(log: BiasAndRateLog) -> list[Claim]:
    """Judge section 2.2's claim on negative biases: every seed of every pair is to learn from one of them."""
    starts, pairs = {}, {key[:2] for key in group_by(log.by_init, arm)}
    for (_, _, *start), runs in sorted(group_by(log.by_init, arm).items(), reverse=True):
        starts.setdefault(tuple(start), []).append(np.nan_to_num(final_values(runs, "test_score")) > LEARNT)
    enough = [bias for (block, bias, _), learnt in starts.items() if block == "highway" and bias < 0 and np.all(learnt)]
    shown = "; ".join(
        f"{name_start(*start)}: {np.all(learnt, axis=1).sum()} ({np.sum(learnt)})"
        for start, learnt in sorted(starts.items(), reverse=True)
    )
    return [
        Claim(
            "2.2",
            "a negative gate bias suffices for learning, for various activations and zero-mean initialisations",
            f"of {len(pairs)} pairs of these, {depth_of(log.by_init)} blocks learn in every seed (of all "
            f"{len(log.by_init) // len(starts)} runs): {shown}",
            f"held from {max(enough):g}" if enough else "not for all",
        )
    ]


FIGURES = {"bias_and_rate.png": rate_figure, "bias_by_init.png": init_figure}
TABLES = {"bias_and_rate": rate_table, "bias_by_init": init_table}
