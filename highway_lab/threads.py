"""BLAS threads."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

THREADED_PRODUCT = 2**22  # multiply-adds above which a second BLAS thread pays for itself


def count_threads(multiply_adds: int) -> int:
    """Return the number of BLAS threads that suit products of this size: one for small ones, else all that are free.

    These are the CPUs that this process may use, or its share of them where joblib runs processes side by side.
    """
    if multiply_adds < THREADED_PRODUCT:
        return 1
    from joblib import cpu_count

    return min(cpu_count(), *(pool["num_threads"] for pool in blas_pools().info()))


@functools.cache
def blas_pools() -> Any:
    """Find the thread pools of the BLAS that NumPy uses."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def quiet_threads(threads: int) -> Iterator[None]:
    """Use this number of BLAS threads, and no warnings: a loss that overflows is recorded in the log."""
    with blas_pools().limit(limits=threads), np.errstate(all="ignore"):
        yield
