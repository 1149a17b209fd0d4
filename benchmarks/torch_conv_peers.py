"""A convolutional net's training step in PyTorch, H and T in one convolution: in both layouts of maps, and compiled."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from conv_highway_networks import AveragePool, Blocks, ConvNet, Convolution, Dropout, MaxPool, Shape, Stage
from conv_recipes import ConvConfig
from highway_lab.datasets import CLASSES

from .torch_peers import CompiledLoss, FusedHighwayLayer, Peer


def modules(stage: Stage, shape: Shape) -> list[nn.Module]:
    """Return the modules of a stage that takes images of this shape."""
    match stage:
        case Convolution(maps, kernel, padding):
            return [nn.Conv2d(shape[0], maps, kernel, padding=padding), nn.ReLU()]
        case Blocks(number, kernel):
            maps = [nn.Conv2d(shape[0], 2 * shape[0], kernel, padding=kernel // 2) for _ in range(number)]
            return [FusedHighwayLayer(both, functional.relu) for both in maps]
        case MaxPool(size, stride):
            return [nn.MaxPool2d(size, stride, ceil_mode=True)]
        case AveragePool(size):
            return [nn.AvgPool2d(size, ceil_mode=True, count_include_pad=False)]
        case Dropout(0.0):
            return []
    raise ValueError(f"expected a stage that PyTorch computes alike, found {stage}")


class Eager(Peer):
    """PyTorch's default layout: one map after another."""

    layout = torch.contiguous_format

    def __init__(self, net: ConvNet, x: np.ndarray, y: np.ndarray, config: ConvConfig):
        layers = [module for layer in net.layers for module in modules(layer.stage, layer.x_shape)]
        output = nn.Linear(int(np.prod(net.layers[-1].y_shape)), CLASSES)
        model = nn.Sequential(*layers, nn.Flatten(), output).to(memory_format=self.layout)
        super().__init__(net, model, x, y, float("inf"))
        self.x = self.x.contiguous(memory_format=self.layout)
        weights, biases = ([p for p in model.parameters() if (p.dim() > 1) == is_weight] for is_weight in (True, False))
        self.optimizer = torch.optim.SGD(
            [{"params": weights, "weight_decay": config.weight_decay}, {"params": biases}],
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            fused=True,
        )


class ChannelsLast(Eager):
    """The other layout: one pixel after another, with all its maps."""

    layout = torch.channels_last


class Compiled(CompiledLoss, ChannelsLast):
    """Compiled; on a CPU the compiler changes any layout into this one."""
