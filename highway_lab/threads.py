"""The limit on BLAS threads, under which the laboratory trains and measures."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@functools.cache
def blas_pools() -> Any:
    """Find the thread pools of the BLAS that NumPy uses."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one BLAS thread, as bits depend on their number, and no warnings: a loss that overflows is recorded."""
    with blas_pools().limit(limits=1), np.errstate(all="ignore"):
        yield
