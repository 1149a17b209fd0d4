"""BLAS threads."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

THREADED_PRODUCT = 2**22  # multiply-adds above which a second BLAS thread pays for itself


def count_threads(multiply_adds: int) -> int:
    """How many BLAS threads suit products of that size: one for small ones; for large ones, all that this process has.

    These are the CPUs that it may use, or fewer: where processes run side by side, joblib gives each its share.
    """
    if multiply_adds < THREADED_PRODUCT:
        return 1
    from joblib import cpu_count

    return min(cpu_count(), *(pool["num_threads"] for pool in blas_pools().info()))


@functools.cache
def blas_pools() -> Any:
    """The thread pools of the BLAS that NumPy uses."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def quiet_threads(threads: int) -> Iterator[None]:
    """So many BLAS threads, and no warnings: a loss that overflows is recorded, not shouted."""
    with blas_pools().limit(limits=threads), np.errstate(all="ignore"):
        yield
