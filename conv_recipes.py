"""The paper's convolutional nets, of tables 1 to 3, how each is trained, and the command `conv_highway_networks.py`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from conv_highway_networks import (
    AveragePool,
    Blocks,
    ConvArchitecture,
    ConvNet,
    Convolution,
    Dropout,
    MaxPool,
    Stage,
    contrast_normalised,
)
from highway_lab.cli import TABLES
from highway_lab.commands import TrainingCommand
from highway_lab.datasets import CLASSES
from highway_networks import (
    OPTIMIZERS,
    POSITIVE,
    SCHEDULE,
    ZERO_OR_MORE,
    Dataset,
    TrainingConfig,
    UpTo,
    hyperparameter,
)

__all__ = ["NETS", "ConvConfig", "Recipe", "configure", "for_few_images", "main"]

# ------------------------------------------------------------------------------------- the paper's nets


UNIT = (lambda value: 0 <= value <= 1, "a number in [0, 1]")
PIXELS = (lambda value: 0 <= value <= 32, "a number in [0, 32]")
SHAPES = {"mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}  # images of a data set


@dataclass(frozen=True)
class Recipe:
    """A net of the paper: its data set, its stages, and its settings other than ConvConfig's defaults.

    counts: layers (convolutions, blocks and the dense layer) and parameters, where the paper or its files state them.
    """

    dataset: str
    stages: Sequence[Stage]
    settings: dict[str, Any] = field(default_factory=dict)
    counts: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.counts:
            net = ConvNet(SHAPES[self.dataset], CLASSES, stages=self.stages, rng=None)
            assert self.counts == (len(net.convolutions) + 1, net.params.flat.size)


def mnist(maps: int, blocks: Sequence[int] = (2, 3, 3), counts: tuple[int, int] | None = None) -> Recipe:
    """Return a net of table 1, with these numbers of blocks at its three resolutions."""
    first, second, third = map(Blocks, blocks)
    begin = (Dropout(0.2), Convolution(maps, 5, padding=0), first, MaxPool(3, 2), Dropout(0.3), second)
    return Recipe("mnist", (*begin, MaxPool(3, 2), Dropout(0.4), third, MaxPool(2, 2), Dropout(0.5)), {}, counts)


def fitnet(*stages: Stage, counts: tuple[int, int], **settings: Any) -> Recipe:
    """Return a net of table 2 or 3, for CIFAR-10."""
    shared = {"contrast": True, "augment": True, "n_train": UpTo(45_000), "lr": 0.06, "weight_decay": 5e-4}
    return Recipe("cifar-10", stages, shared | settings, counts)


ALTERNATING = [Blocks(1, size) for size in (3, 1, 3, 1, 3, 1, 3, 1, 3)]
TABLE_3 = (
    *(Convolution(32), Blocks(4), MaxPool(3, 2), Dropout(0.2)),
    *(Convolution(80), Blocks(5), MaxPool(3, 2), Dropout(0.2)),
    *(Convolution(128), Blocks(5), Convolution(100, 1, padding=0), AveragePool(8), Dropout(0.2)),
)

NETS = {
    "mnist-16": mnist(16, counts=(10, 38_986)),  # the paper: 39 K parameters
    "mnist-32": mnist(32, counts=(10, 151_690)),  # 151 K
    "mnist-8": mnist(8),
    "mnist-8-20": mnist(8, (6, 6, 6)),
    "mnist-8-30": mnist(8, (9, 9, 10)),
    # Table 2. The authors published no file: A is the net of 11 layers that comes nearest to its 236 K parameters.
    "highway-a": fitnet(
        *(Convolution(16), Blocks(2), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(32), Blocks(3), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(64), Blocks(2), AveragePool(8), Dropout(0.2)),
        counts=(11, 236_714),
    ),
    # 2.3 M: we assume the net of table 3, whose file is published; table 2's ended in a dense layer.
    "highway-b": fitnet(*TABLE_3, gate_bias=-2.0, counts=(19, 2_256_838)),
    # 1.25 M, 3x3 and 1x1 in turn: we assume 9 blocks at each of three resolutions, twice as many maps at the next, and
    # the end of table 3's net; 24 maps at first give the paper's number of parameters.
    "highway-c": fitnet(
        *(Convolution(24), *ALTERNATING, MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(48), *ALTERNATING, MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(96), *ALTERNATING, Convolution(100, 1, padding=0), AveragePool(8), Dropout(0.2)),
        gate_bias=-3.0,
        counts=(32, 1_251_798),
    ),
    "table-3": fitnet(*TABLE_3, gate_bias=-2.0, counts=(19, 2_256_838)),
    "digits": Recipe(  # scikit-learn's images of 8 x 8 pixels: trained in seconds
        "digits", (Convolution(8), Blocks(2), MaxPool(3, 2), Blocks(2), MaxPool(2, 2)), {"lr": 0.05, "batch_size": 20}
    ),
}
TABLES["NETS"] = NETS, Recipe


# ---------------------------------------------------------------------------------------------- images


def mean_image(images: np.ndarray, rows: int = 1000) -> np.ndarray:
    """Return the mean (C, H, W) of images after `contrast_normalised`, in float64."""
    parts = (contrast_normalised(images[start : start + rows]) for start in range(0, len(images), rows))
    return sum(part.sum(axis=0, dtype=np.float64) for part in parts) / len(images)


def crop_and_mirror(x: np.ndarray, rng: np.random.Generator, padding: int) -> np.ndarray:
    """Return images (n, C, H, W), each padded with zeros and cropped to its size at random, half of them mirrored."""
    n, _, H, W = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    crops = sliding_window_view(padded, (H, W), axis=(2, 3))
    top, left = rng.integers(0, 2 * padding, (2, n), endpoint=True)
    cropped = crops[np.arange(n), :, top, left]
    mirrored = rng.random(n) < 0.5
    cropped[mirrored] = cropped[mirrored, ..., ::-1]
    return cropped


# -------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class ConvConfig(TrainingConfig, ConvArchitecture):
    """Every value that a run of a ConvNet depends on, beside the data set; by default the recipe of table 1.

    The authors trained 300 epochs, with a tenth of the rate after each third.
    """

    optimizer: str = hyperparameter("momentum", "update rule", OPTIMIZERS)
    lr: float = hyperparameter(0.01, "learning rate", POSITIVE)
    schedule: str = hyperparameter("cosine", "of the learning rate: constant, cosine or steps", SCHEDULE)
    nesterov: bool = hyperparameter(True, "momentum: Nesterov's")
    weight_decay: float = hyperparameter(1e-3, "factor on the weights that is added to their gradients", ZERO_OR_MORE)
    clip: float = hyperparameter(0.0, "largest global L2 norm of the gradients; 0: no limit", ZERO_OR_MORE)
    batch_size: int = hyperparameter(100, "samples a step", POSITIVE)
    epochs: int = hyperparameter(20, "passes over the training samples", POSITIVE)
    n_train: int = hyperparameter(UpTo(55_000), "training samples, drawn at random", POSITIVE)
    n_validation: int = hyperparameter(UpTo(5000), "validation samples; tests are then scored last only", ZERO_OR_MORE)
    n_scored: int = hyperparameter(1000, "training samples that are scored after each epoch; 0: all", ZERO_OR_MORE)
    n_test: int = hyperparameter(UpTo(10_000), "test samples, drawn at random", POSITIVE)
    net: str = hyperparameter("mnist-16", "which of the paper's nets", NETS)
    dropout: float = hyperparameter(1.0, "factor on the net's probabilities of dropout", UNIT)
    augment: bool = hyperparameter(False, "train on random crops and mirror images")
    padding: int = hyperparameter(8, "pixels by which a random crop may be off the middle", PIXELS)

    SIZE = "net"

    @property
    def title(self) -> str:
        return f"{self.block} {self.net}"

    @property
    def stages(self) -> list[Stage]:
        """Stages of the net, with the config's dropout."""
        return self.with_dropout(NETS[self.net].stages)

    def with_dropout(self, stages: Sequence[Stage]) -> list[Stage]:
        """Return stages whose rates of dropout are multiplied by the config's factor."""
        return [Dropout(self.dropout * stage.rate) if isinstance(stage, Dropout) else stage for stage in stages]

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return sum(stage.number for stage in self.stages if isinstance(stage, Blocks))

    def new_net(self, data: Dataset, rng: np.random.Generator) -> ConvNet:
        """Make the net for `data`, whose weights `rng` draws, and whose mean image is that of the training images."""
        net = self.build(data.train_x.shape[1:], data.outputs, rng)
        if self.contrast:
            net.buffers["mean"][...] = mean_image(data.train_x)
        return net

    def build(self, shape: Sequence[int], d_out: int, rng: np.random.Generator | None) -> ConvNet:
        """Make the net for images (C, H, W), without the mean image of any data."""
        architecture = {field.name: getattr(self, field.name) for field in dataclasses.fields(ConvArchitecture)}
        return ConvNet(shape, d_out, stages=self.stages, **architecture, rng=rng)

    def augmented(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return preprocessed images x (B, C, H, W) randomly cropped and mirrored, if the config says so."""
        return crop_and_mirror(x, rng, self.padding) if self.augment else x


def configure(net: str, **fields: Any) -> ConvConfig:
    """Return the config of a net by its recipe, but for the given fields; raises InputError for a wrong value."""
    settings = NETS[net].settings if isinstance(net, str) and net in NETS else {}  # what is no net is refused below
    return ConvConfig(net=net, **(settings | fields))


FEW_DROPOUT = 0.0  # factor on the recipe's rates, which need more epochs
STEPS, FEWEST = 50, 8  # steps that an epoch of few images should have, and images that a step should


def for_few_images(config: ConvConfig) -> dict[str, Any]:
    """Return the fields of a config that suit a user's own images, of which there may be few."""
    return {"dropout": FEW_DROPOUT, "batch_size": min(config.batch_size, max(config.n_train // STEPS, FEWEST))}


# ----------------------------------------------------------------------------------------- the command

COMMAND = TrainingCommand(
    module="conv_highway_networks",
    description="Train the paper's convolutional networks and log every epoch as JSON.",
    config=ConvConfig,
    configure=configure,
    dataset=lambda net: NETS[net].dataset,
    sizes=NETS,
    quick={  # so few steps need small batches, and no dropout, to learn anything
        **{"epochs": 2, "n_train": UpTo(2000), "n_validation": UpTo(500), "n_test": UpTo(1000)},
        **{"batch_size": 20, "dropout": 0.0},
    },
    sweep={"seed": [ConvConfig.seed]},
    of_folder=for_few_images,
    checkpoints=True,
)
main = COMMAND.run
