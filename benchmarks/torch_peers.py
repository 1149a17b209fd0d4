"""The training step in PyTorch: a highway net as it is usually written, with fewer and larger operations, compiled."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from highway_lab.datasets import CLASSES
from highway_networks import DeepNet, Net, Tensors

from .contenders import D_IN, LR


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
    """A training step of a model that starts with our weights; subclasses add the optimizer."""

    optimizer: torch.optim.Optimizer

    def __init__(self, net: Net, model: nn.Module, x: np.ndarray, y: np.ndarray, clip: float):
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.net, self.model = net, model
        self.x, self.y, self.clip = torch.from_numpy(x), torch.from_numpy(y), clip
        with torch.no_grad():
            for parameter, tensor in self.pairs(net.params):
                parameter.copy_(torch.from_numpy(tensor))

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
        if self.clip < math.inf:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.backward()
            self.optimizer.step()

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        return self.backward().item(), self.as_ours(lambda parameter: parameter.grad)

    def parameters(self) -> Tensors:
        return self.as_ours(lambda parameter: parameter.detach())


class CompiledLoss:
    """A base to put before a peer: forward, loss and backward compiled as one graph, for these shapes alone."""

    def __init__(self, *problem: Any):
        super().__init__(*problem)
        torch.compiler.reset()  # else it makes variables of shapes seen before, which run slower
        self.loss = torch.compile(self.loss, fullgraph=True, dynamic=False)


class Eager(Peer):
    """Two linear maps a layer, and the default Adam."""

    layer = HighwayLayer
    fused_adam = False

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        D = net.hidden
        blocks = (self.layer(D) for _ in range(net.depth))
        super().__init__(net, nn.Sequential(nn.Linear(D_IN, D), nn.Tanh(), *blocks, nn.Linear(D, CLASSES)), x, y, clip)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR, fused=self.fused_adam)


class Fused(Eager):
    """One linear map a layer, and Adam as one operation."""

    fused_adam = True

    @staticmethod
    def layer(size: int) -> nn.Module:
        return FusedHighwayLayer(nn.Linear(size, 2 * size), torch.tanh)


class Compiled(CompiledLoss, Fused):
    """One linear map a layer, compiled."""
