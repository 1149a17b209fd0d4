"""The training step in PyTorch: dense nets as they are usually written, with fewer and larger operations, compiled.

Convolutional nets have H and T in one convolution, in either layout of maps, and compiled.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from conv_highway_networks import AveragePool, Blocks, ConvNet, Convolution, Dropout, MaxPool, Shape, Stage
from conv_recipes import ConvConfig
from highway_lab.datasets import CLASSES
from highway_lab.slices import free_cpus
from highway_networks import DeepNet, Net, Tensors, TrainingConfig

from .contenders import D_IN


class HighwayLayer(nn.Module):
    """y = t·h + (1 − t)·x, with a linear map for each of h and t."""

    def __init__(self, size: int):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.transform(x))
        t = torch.sigmoid(self.gate(x))
        return t * h + (1 - t) * x


class FusedHighwayLayer(nn.Module):
    """A highway layer with one affine map, `both`, for h and t, and y as a single operation."""

    def __init__(self, both: nn.Module, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.both, self.activation = both, activation

    def forward(self, x: Tensor) -> Tensor:
        h, t = self.both(x).chunk(2, dim=1)
        return torch.lerp(x, self.activation(h), torch.sigmoid(t))


class Peer:
    """A training step of a model that starts with our weights; subclasses add the optimizer.

    `compiled`: whether forward, loss and backward are compiled as one graph, for these shapes alone.
    """

    optimizer: torch.optim.Optimizer
    compiled = False

    def __init__(self, net: Net, model: nn.Module, x: np.ndarray, y: np.ndarray, config: TrainingConfig):
        torch.set_num_threads(free_cpus())
        self.net, self.model, self.config = net, model, config
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        with torch.no_grad():
            for parameter, tensor in self.pairs(net.params):
                parameter.copy_(torch.from_numpy(tensor))
        if self.compiled:
            self.loss = torch.compile(self.loss, fullgraph=True, dynamic=False)

    def pairs(self, ours: Tensors) -> Iterator[tuple[nn.Parameter, np.ndarray]]:
        """Yield each parameter with its view in `ours`, where one matrix [W b] follows another."""
        end = 0
        for module in self.model.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                rows, *shape = module.weight.shape
                start, end = end, end + rows * (math.prod(shape) + 1)
                matrix = ours.flat[start:end].reshape(rows, -1)
                weight = matrix[:, :-1]
                if isinstance(module, nn.Conv2d):  # ours (D, k·k·C), PyTorch's (D, C, k, k)
                    C, k, _ = shape
                    weight = weight.reshape(rows, k, k, C).transpose(0, 3, 1, 2)
                yield module.weight, weight
                yield module.bias, matrix[:, -1]

    def as_ours(self, part: Callable[[nn.Parameter], Tensor]) -> Tensors:
        """Return a `part` of every parameter, such as its gradient, as tensors of our net."""
        ours = self.net.new_parameters()
        for parameter, tensor in self.pairs(ours):
            tensor[...] = part(parameter)
        return ours

    def loss(self) -> Tensor:
        return functional.cross_entropy(self.model(self.x), self.y)

    def backward(self) -> Tensor:
        """Do forward, backward and clip; return the loss."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        return loss

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.backward()
            self.optimizer.step()

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        return self.backward().item(), self.as_ours(lambda parameter: parameter.grad)

    def parameters(self) -> Tensors:
        return self.as_ours(lambda parameter: parameter.detach())


class Eager(Peer):
    """Two linear maps a layer, and the default Adam."""

    layer = HighwayLayer
    fused_adam = False

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, config: TrainingConfig):
        D = net.hidden
        blocks = (self.layer(D) for _ in range(net.depth))
        model = nn.Sequential(nn.Linear(D_IN, D), nn.Tanh(), *blocks, nn.Linear(D, CLASSES))
        super().__init__(net, model, x, y, config)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, fused=self.fused_adam)


class Fused(Eager):
    fused_adam = True
    layer = staticmethod(lambda size: FusedHighwayLayer(nn.Linear(size, 2 * size), torch.tanh))


class Compiled(Fused):
    compiled = True


# ----------------------------------------------------------------------------------- convolutional nets


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


class ConvEager(Peer):
    """PyTorch's default layout: one map after another."""

    layout = torch.contiguous_format

    def __init__(self, net: ConvNet, x: np.ndarray, y: np.ndarray, config: ConvConfig):
        layers = [module for layer in net.layers for module in modules(layer.stage, layer.x_shape)]
        output = nn.Linear(int(np.prod(net.layers[-1].y_shape)), CLASSES)
        model = nn.Sequential(*layers, nn.Flatten(), output).to(memory_format=self.layout)
        super().__init__(net, model, x, y, config)
        self.x = self.x.contiguous(memory_format=self.layout)
        weights, biases = ([p for p in model.parameters() if (p.dim() > 1) == is_weight] for is_weight in (True, False))
        self.optimizer = torch.optim.SGD(
            [{"params": weights, "weight_decay": config.weight_decay}, {"params": biases}],
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            fused=True,
        )


class ChannelsLast(ConvEager):
    layout = torch.channels_last  # one pixel after another, with all its maps


class ConvCompiled(ChannelsLast):  # on a CPU the compiler changes any layout into this one
    compiled = True
