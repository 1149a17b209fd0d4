"""Picture, table and claim of gate biases by depth, in convolutional nets."""

import numpy as np
from matplotlib.figure import Figure

from conv_recipes import ConvConfig
from highway_lab.console import final, name_tested, seeds_of
from highway_lab.figures import COLORS, label_ends, markdown, new_figure, pale
from highway_lab.intervals import interval
from highway_lab.logs import Run, RunLog

from .claims import Claim
from .common import final_values, group_by
from .common_figures import FIELDS, Runs, draw_against, draw_epochs, gains, minus, scale_by_logarithm
from .conv_bias import BIASES, GUIDELINE, layers

STRENGTHS = dict(zip(BIASES, (0.4, 0.7, 1.0), strict=True))  # of the line's colour


def by_depth(log: RunLog[ConvConfig]) -> dict[int, dict[float | str, Runs]]:
    """Return runs by layers, then by gate bias, the highest first; plain nets last, as "plain"."""

    def key(run: Run[ConvConfig]) -> tuple[int, str, float]:
        return layers(run.config), run.config.block, -run.config.gate_bias

    depths = {}
    for (depth, block, negative), runs in group_by(log.runs, key).items():
        depths.setdefault(depth, {})["plain" if block == "plain" else -negative] = runs
    return depths


def name(arm: float | str) -> str:
    """Return a table's name of an arm."""
    return arm if arm == "plain" else f"{arm:g}"


def bias_figure(log: RunLog[ConvConfig]) -> Figure:
    """Draw a column for each depth: validation error by epoch, a line for each bias; below it test error by bias."""
    config, depths = log.runs[0].config, by_depth(log)
    title = f"{name_tested(log.dataset)}: {config.n_train:,} training images, by layers and gate bias $b_T$"
    figure, grid = new_figure(title, 6.6, nrows=2, ncols=len(depths), sharey="row", squeeze=False)
    for (upper, lower), (depth, arms) in zip(grid.T, depths.items(), strict=True):
        lines = {name(arm).replace("-", "−"): ({"color": color(arm)}, runs) for arm, runs in arms.items()}
        draw_epochs(upper, "validation_score", lines)
        upper.set_title(f"{depth} layers; guideline {minus(GUIDELINE[depth])}")
        by_bias = {place: arms[bias] for place, bias in enumerate(BIASES)}
        draw_against(lower, by_bias, test_errors, label="_", color=COLORS["highway"])
        lower.set_xticks(range(len(BIASES)), map(minus, BIASES))
        lower.set_xlabel("$b_T$")
        scale_by_logarithm(lower)
    grid[0, 0].set_ylabel(FIELDS["validation_score"])
    grid[1, 0].set_ylabel("error on test images (%)")
    for axes in grid[0]:
        label_ends(axes)
    return figure


def color(arm: float | str) -> str | tuple[float, ...]:
    """Return the colour of an arm's line."""
    return COLORS["plain"] if arm == "plain" else pale(COLORS["highway"], STRENGTHS[arm])


def test_errors(runs: Runs) -> np.ndarray:
    """Return the final test error of each run, in per cent."""
    return 100 - 100 * np.array(final_values(runs, "test_score"))


def bias_table(log: RunLog[ConvConfig]) -> str:
    """Tabulate by depth and bias test accuracy, training loss, and the gain over the guideline's bias."""
    rows = []
    for depth, arms in by_depth(log).items():
        advised = arms[GUIDELINE[depth]]
        for arm, runs in arms.items():
            gain = "the guideline" if runs is advised else str(interval(gains(runs, advised)))
            scores = [final(runs, "test_score", percent=True), final(runs, "train_loss")]
            rows.append([str(depth), name(arm), f"{runs[0].n_params:,}", *scores, gain])
    table = markdown(["layers", "b_T", "parameters", "test accuracy (%)", "training loss", "points gained"], rows)
    return (
        f"{table}\n\n{name_tested(log.dataset)}. {seeds_of(run.config for run in log.runs)} Points gained over the "
        "guideline's bias at that depth: mean and 95 % interval of the differences seed by seed."
    )


def claims(log: RunLog[ConvConfig]) -> list[Claim]:
    """Judge section 2.2's guideline at each depth: it holds if every other bias is shown to lose."""
    verdicts, shown = {}, []
    for depth, arms in by_depth(log).items():
        advised = GUIDELINE[depth]
        signs = [interval(gains(arms[bias], arms[advised])).sign for bias in BIASES if bias != advised]
        verdict = "not" if max(signs) > 0 else "held" if max(signs) < 0 else "not told apart"
        verdicts.setdefault(verdict, []).append(str(depth))
        scores = ", ".join(f"{name(arm)} {final(runs, 'test_score', percent=True)}" for arm, runs in arms.items())
        shown.append(f"{depth} layers: {scores}")
    by_verdict = [f"{verdict} at {', '.join(depths)}" for verdict, depths in verdicts.items()]
    return [
        Claim(
            "2.2",
            "b_T of -1, -2, -3 suits convolutional highway networks of about 10, 20, 30 layers",
            f"test accuracy (%) by b_T, {log.dataset.n_train:,} training images; {'; '.join(shown)}",
            "; ".join(by_verdict if len(verdicts) > 1 else verdicts),
        )
    ]


FIGURES = {"conv_bias.png": bias_figure}
TABLES = {"conv_bias": bias_table}
