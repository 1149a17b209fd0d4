"""A convolutional highway net as an estimator for scikit-learn: classes of images, gate maps, lesions.

    from highway_image_estimator import HighwayImageClassifier
    from highway_lab.datasets import load_folder

    data = load_folder("flowers", size=32)    # one subfolder a class
    net = HighwayImageClassifier("mnist-16", random_state=0).fit(data.train_x, data.train_y)
    net.score(data.test_x, data.test_y)
    net.lesion_scores(data.test_x, data.test_y)    # without each block in turn

Parameters, methods and attributes mean the same as in highway_estimators. Images are (n, rows, columns), grey, or
(n, channels, rows, columns). Pixels are uint8, or floats of about -1 to 1. Computations are in float64 for images in
float64, else in float32.
"""

if "HighwayImageClassifier" in globals():  # as in highway_estimators
    raise ImportError("highway_image_estimator: expected to be imported once, found a reload; restart the kernel")

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import convert
from sklearn.utils import check_array, gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from conv_highway_networks import CONV_INITS, ConvNet, Stage, as_stage
from conv_recipes import FEW_DROPOUT, NETS, STEPS, UNIT, ConvConfig, for_few_images
from highway_estimators import CLASSES_DOC, EITHER, PRECISIONS, HighwayEstimator, LabelsMixin, describe, has_gates
from highway_lab.fields import NotNegative
from highway_lab.slices import SlicedConvNet
from highway_networks import FINITE, OPTIMIZERS, POSITIVE, SCHEDULE, ZERO_OR_MORE, hyperparameter, warn_of_scale

__all__ = ["HighwayImageClassifier"]

ROWS = 100  # images whose gates are computed together
RECIPE = "auto: that of the net's recipe."


@dataclass(frozen=True)
class ImageConfig(ConvConfig):
    """A ConvConfig whose net may have stages of its own, which are not in the table of nets."""

    own_stages: tuple[Stage, ...] = hyperparameter((), "stages instead of those of `net`")

    @property
    def stages(self) -> list[Stage]:
        """Stages of the net, with the config's dropout."""
        return self.with_dropout(self.own_stages or NETS[self.net].stages)


@dataclass(eq=False, repr=False)
class HighwayImageClassifier(LabelsMixin, HighwayEstimator):  # its docstring follows: it lists the fields
    net: str = hyperparameter("mnist-16", "Name in `conv_recipes.NETS`: stages and settings of a net.", NETS)
    stages: list | None = hyperparameter(  # noqa: RUF009, a field
        None, "Stages instead of the net's, such as [Convolution(16), Blocks(3), MaxPool(2, 2)]."
    )
    _: dataclasses.KW_ONLY
    init: str = hyperparameter("he", "Initial weights: he, orthogonal or uniform.", CONV_INITS)
    gate_bias: float | str = hyperparameter("auto", f"Initial gate bias b_T; {RECIPE}", FINITE)
    batch_norm: bool = hyperparameter(False, "Normalise H's affine map over the batch.", EITHER)
    contrast: bool | str = hyperparameter("auto", f"Normalise each image's contrast; {RECIPE}", EITHER)
    augment: bool | str = hyperparameter("auto", f"Train on random crops and mirror images; {RECIPE}", EITHER)
    dropout: float = hyperparameter(FEW_DROPOUT, "Factor on the rates of the net's dropout; 1 needs many epochs.", UNIT)
    optimizer: str = hyperparameter("momentum", "Update rule.", OPTIMIZERS)
    learning_rate: float | str = hyperparameter("auto", f"Learning rate; {RECIPE}", POSITIVE)
    schedule: str = hyperparameter(
        "cosine", "Of the learning rate in `fit`: constant, cosine or steps like '0.5,0.75'.", SCHEDULE
    )
    batch_size: int | str = hyperparameter(
        "auto",
        f"Images a step; auto: as in the net's recipe, fewer where an epoch has less than {STEPS} steps.",
        POSITIVE,
    )
    weight_decay: float | str = hyperparameter("auto", f"Factor on the weights; {RECIPE}", ZERO_OR_MORE)
    clip: float = hyperparameter(0.0, "Largest global L2 norm of the gradients; 0: no limit.", ZERO_OR_MORE)
    max_iter: int = hyperparameter(
        20,
        "Epochs, over which the cosine schedule lowers the rate to 0. With few, a net may not begin to learn: on 100 "
        "of scikit-learn's digits (net='digits'), 5 end at a test accuracy of 0.12, as guesses do, and 20 at 0.76.",
        POSITIVE,
    )
    early_stopping: bool = hyperparameter(False, "Validate after each epoch; keep the best epoch's net.", EITHER)

    _net_type: ClassVar[type] = SlicedConvNet
    _config_type: ClassVar[type] = ImageConfig

    def _new_config(self, resume: bool, counted: float, **chosen: Any) -> ImageConfig:
        if self.stages is not None and not (isinstance(self.stages, Sequence) and self.stages):
            raise ValueError(f"stages: expected a list of some, found {self.stages!r:.40}; name them, or leave it None")
        own_stages = tuple(map(as_stage, self.stages or ()))
        config = ImageConfig(own_stages=own_stages, n_validation=0, **NETS[chosen["net"]].settings | chosen)
        if "batch_size" not in chosen:
            config = dataclasses.replace(config, batch_size=for_few_images(config)["batch_size"])
        return config

    def _validated(self, X, *y, reset: bool, dtype: Any) -> Any:
        dtype = [*(PRECISIONS if reset else [dtype]), np.uint8]
        images = as_images(check_array(X, dtype=dtype, allow_nd=True, ensure_2d=False, input_name="X"))
        checked = validate_data(self, images.reshape(len(images), -1), *y, reset=reset, dtype=dtype)
        if not reset and images.shape[1:] != (expected := tuple(self.net_.config["shape"])):  # though as many pixels
            found = f"expected images {expected}, as in fit, found {images.shape[1:]}"
            raise ValueError(f"X: {found}; pass X[None], if it is one image, or X.transpose(0, 3, 1, 2)")
        self._check_scale(images, reset)
        return (images, checked[1]) if y else images

    def _check_scale(self, images: np.ndarray, reset: bool) -> None:
        """Raise ValueError for floats on a scale that no net expects, or on another one than in the last fit."""
        largest = 1.0 if images.dtype == np.uint8 else float(np.abs(images).max())
        if reset:
            if largest > 2 and images.min() >= 0:  # pixels, whose scale is not 0 to 1
                found = f"expected pixels as uint8, or floats from 0 to 1, found values up to {largest:g}"
                raise ValueError(f"X: {found}; pass X.astype(np.uint8), or divide by the largest possible")
            warn_of_scale("X", images, stacklevel=8)  # of the line that called `fit` or `partial_fit`
            self._largest = largest
        elif largest > 8 * self._largest:
            found = f"expected uint8, or floats up to about {self._largest:g}, as in fit, found {largest:g}"
            raise ValueError(f"X: {found}; scale them in the same way")

    def _gates(self, X: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        for rows in gen_batches(len(X), ROWS):
            _, workspace = self.net_.forward(self.net_.preprocess(X[rows]))
            for l, T_l in enumerate(workspace.T):
                yield rows, l, T_l

    @available_if(has_gates)
    def transform_gates(self, X) -> list[np.ndarray]:
        """Return the gate maps of each block: T (n, D, H, W) of its D maps; 1 transforms a pixel, 0 passes it on."""
        X = self._inputs(X)
        maps = [[] for _ in range(self.net_.depth)]
        for _, l, T_l in self._gates(X):
            maps[l].append(T_l.transpose(3, 0, 1, 2))
        return [np.concatenate(parts) for parts in maps]

    def _saved_rest(self) -> dict[str, Any]:
        stages = None if self.stages is None else [[type(of).__name__, *of] for of in map(as_stage, self.stages)]
        return super()._saved_rest() | {"stages": stages, "largest": self._largest}

    def _load_rest(self, saved: dict[str, Any]) -> None:
        super()._load_rest(saved)
        self.stages = saved["stages"] and [as_stage(stage) for stage in saved["stages"]]
        self._largest = convert(saved["largest"], NotNegative)

    def _follow(self, net: ConvNet) -> None:
        self.stages, self.dropout = [as_stage(stage) for stage in net.config["stages"]], 1.0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        return tags


HighwayImageClassifier.__doc__ = f"""A convolutional highway net for classes of images, trained on the cross-entropy.
{describe(HighwayImageClassifier, "conv_highway_networks.ConvNet")}{CLASSES_DOC}"""


def as_images(X: np.ndarray) -> np.ndarray:
    """Return images (n, rows, columns) or (n, channels, rows, columns) in the second form; else raises ValueError."""
    if X.ndim not in (3, 4):
        expected = "expected images (n, rows, columns) or (n, channels, rows, columns)"
        raise ValueError(f"X: {expected}, found shape {X.shape}; reshape them")
    return X if X.ndim == 4 else X[:, None]
