"""Pictures and tables of which biases, rates, activations and initialisations let 50 blocks train."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import final, name_tested, seeds_of
from highway_lab.figures import COLORS, FAINT_INK, draw_level, markdown, new_figure, pale
from highway_networks import DATASETS

from .beyond.very_deep_figures import ONE_IN, minus
from .bias_and_rate import BiasAndRateLog, arm
from .claims import Claim
from .common import CHANCE, TrainedRun, final_values, group, near_ends, points
from .intervals import interval

ASKED = (-2.0, 5e-3)  # bias and rate from which 50 blocks fall behind; LOWER: the rate, the bias, or both
LOWER = RATE, BIAS, BOTH = (-2.0, 1e-3), (-6.0, 5e-3), (-6.0, 1e-3)
CONTRASTS = ((RATE, ASKED), (BIAS, ASKED), (BOTH, ASKED), (BOTH, RATE), (BOTH, BIAS))
LEARNT = 0.5  # test accuracy above which, in every seed, learning has proceeded: chance is about 0.11
STRENGTHS = {0.0: 0.25, -2.0: 0.5, -4.0: 0.75, -8.0: 1.0}  # of the colour, by bias


def title(log: BiasAndRateLog, runs: list[TrainedRun], blocks: str) -> str:
    """Data set, images, blocks and seeds."""
    config, seeds = runs[0].config, len({run.config.seed for run in runs})
    images = f"{name_tested(log.dataset)}: {config.n_train:,} training images"
    return f"{images}, {config.depth} {blocks}, seeds: {seeds}"


def rate_figure(log: BiasAndRateLog) -> Figure:
    """Mean test accuracy, a row for each bias, a column for each rate; below it the standard deviation over seeds."""
    cells = group(log.by_rate, "gate_bias", "lr")
    biases, rates = (sorted({key[axis] for key in cells}, reverse=not axis) for axis in (0, 1))
    figure, axes = new_figure(title(log, log.by_rate, "highway blocks"), 4.0)
    scores = np.array([[final_values(cells[bias, lr], "test_score") for lr in rates] for bias in biases])
    means, spread = scores.mean(axis=-1), scores.std(axis=-1, ddof=1) if scores.shape[-1] > 1 else None
    image = axes.imshow(np.nan_to_num(means), aspect="auto", vmin=0, vmax=1)
    for (row, column), mean in np.ndenumerate(means):
        words = f"{mean:.3f}" + (f"\n± {spread[row, column]:.3f}" if spread is not None else "")
        color = "black" if mean > 0.6 else "white"
        axes.text(column, row, words, color=color, size=9, ha="center", va="center")
    axes.set(xlabel="learning rate", ylabel="initial gate bias $b_T$")
    axes.set_xticks(range(len(rates)), [f"{lr:g}" for lr in rates])
    axes.set_yticks(range(len(biases)), [minus(bias) for bias in biases])
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="test accuracy", aspect=30)
    return figure


def init_figure(log: BiasAndRateLog) -> Figure:
    """Test accuracy of every seed: a panel an activation, initialisations side by side, a colour for each start."""
    by_activation = group(log.by_init, "activation")
    figure, panels = new_figure(
        title(log, deep(log), "blocks (grey: none), rate of each chosen"),
        4.4,
        ncols=len(by_activation),
        sharey=True,
        squeeze=False,
    )
    for axes, ((activation,), runs) in zip(panels[0], by_activation.items(), strict=True):
        inits = list(dict.fromkeys(run.config.init for run in runs))
        arms = sorted(group(runs, "block", "gate_bias", "depth").items(), reverse=True)
        for place, ((block, bias, depth), same) in enumerate(arms):
            shift = 0.14 * (place - (len(arms) - 1) / 2)
            color = COLORS["plain"] if block == "plain" else pale(COLORS["highway"], STRENGTHS[bias])
            color = color if depth else FAINT_INK
            x = [inits.index(run.config.init) + shift for run in same]
            style = {"color": color, "marker": "o", "markersize": 4, "linestyle": "none", "clip_on": False}
            axes.plot(x, np.nan_to_num(final_values(same, "test_score")), **style, label=name_start(block, bias, depth))
        draw_level(axes, 1 / DATASETS[log.dataset.name], ONE_IN[DATASETS[log.dataset.name]])
        axes.set(title=activation, ylim=(0, 1))
        axes.set_xticks(range(len(inits)), inits, size=9)
    panels[0, 0].set_ylabel("test accuracy")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), loc="outside lower center", frameon=False, handletextpad=0.2)
    return figure


def deep(log: BiasAndRateLog) -> list[TrainedRun]:
    """The runs by initialisation, without those of no blocks."""
    return [run for run in log.by_init if run.config.depth]


def name_start(block: str, bias: float, depth: int) -> str:
    """What an arm starts from."""
    return "no blocks" if not depth else block if block == "plain" else f"b_T {minus(bias)}"


def rate_table(log: BiasAndRateLog) -> str:
    """Final test accuracy by bias and rate."""
    cells = group(log.by_rate, "gate_bias", "lr")
    rates = sorted({lr for _, lr in cells})
    biases = sorted({bias for bias, _ in cells}, reverse=True)
    rows = [[f"{bias:g}", *(final(cells[bias, lr], "test_score") for lr in rates)] for bias in biases]
    table = markdown(["b_T", *(f"lr {lr:g}" for lr in rates)], rows)
    return (
        f"{table}\n\nTest accuracy of {log.by_rate[0].config.depth} blocks. {seeds_of(r.config for r in log.by_rate)} "
        f"{mended(cells)}"
    )


def mended(cells: dict[tuple, list[TrainedRun]]) -> str:
    """What a lower rate, a lower bias and both gain where 50 blocks fall behind, in words; none in a smoke run."""
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
    """Final test accuracy by activation and initialisation, from each bias, with the rate that was chosen."""
    cells = group(log.by_init, "activation", "init", "block", "gate_bias", "depth")
    arms = sorted({key[2:] for key in cells}, key=lambda arm: (arm[0] == "plain", -arm[1], -arm[2]))
    rows = []
    for activation, init in dict.fromkeys(key[:2] for key in cells):
        of = [cells[activation, init, *arm] for arm in arms]
        scores = (f"{final(runs, 'test_score')} (lr {runs[0].config.lr:g})" for runs in of)
        rows.append([activation, init, *scores])
    table = markdown(["activation", "initialisation", *(name_start(*arm) for arm in arms)], rows)
    grid, ends = near_ends(log.tried, log.by_init, arm, 1)
    at_ends = [f"{activation} {init} {name_start(*start)}" for activation, init, *start in ends]
    return (
        f"{table}\n\nTest accuracy of {deep(log)[0].config.depth} blocks. {seeds_of(r.config for r in log.by_init)} "
        f"Rates from {grid}; chosen at an end: {', '.join(at_ends) or 'none'}."
    )


def claims(log: BiasAndRateLog) -> list[Claim]:
    """What section 2.2 says of negative biases, beside a bias of zero and plain nets."""
    learnt, seeds, of = {}, {}, len(group(log.by_init, "activation", "init"))
    for (_, _, *start), runs in group(log.by_init, "activation", "init", "block", "gate_bias", "depth").items():
        proceed = np.nan_to_num(final_values(runs, "test_score")) > LEARNT
        learnt[*start] = learnt.get((*start,), 0) + int(proceed.all())
        seeds[*start] = seeds.get((*start,), 0) + int(proceed.sum())
    enough = [bias for (block, bias, _), count in learnt.items() if block == "highway" and bias < 0 and count == of]
    shown = "; ".join(
        f"{name_start(*start)}: {count} ({seeds[start]})" for start, count in sorted(learnt.items(), reverse=True)
    )
    return [
        Claim(
            "2.2",
            "a negative gate bias suffices for learning, for various activations and zero-mean initialisations",
            f"of {of} pairs of these, {deep(log)[0].config.depth} blocks learn in every seed (of all "
            f"{len(log.by_init) // len(learnt)} runs): {shown}",
            f"held from {max(enough):g}" if enough else "not for all",
        )
    ]


FIGURES = {"bias_and_rate.png": rate_figure, "bias_by_init.png": init_figure}
TABLES = {"bias_and_rate": rate_table, "bias_by_init": init_table}
