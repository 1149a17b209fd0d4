"""Threads: of BLAS, and Python's own, which take slices of a batch side by side."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from itertools import count
from typing import Any

import numpy as np

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # set by joblib, Dask, careful users
THREADED_PRODUCT = 2**22  # multiply-adds above which a second BLAS thread pays for itself


def count_threads(multiply_adds: int) -> int:
    """Return the number of BLAS threads that suit products of this size: one for small ones, else all that are free."""
    return 1 if multiply_adds < THREADED_PRODUCT else free_cpus()


def free_cpus() -> int:
    """Return the number of CPUs that this process may use; its share where joblib or Dask run several side by side."""
    from joblib import cpu_count

    shares = map(os.environ.get, THREAD_LIMITS)
    return min([cpu_count(), *(int(share) for share in shares if share and share.isdigit() and int(share))])


def run_side_by_side(threads: int, function: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
    """Return function(...) of all items, as `map` does, computed by that many Python threads.

    They gain where NumPy's calls are long, as it releases the interpreter's lock. Each call has one BLAS thread, so
    that bits do not depend on `threads`, and the caller's `np.errstate`. An error ends the calls that have not begun.
    """
    with blas_pools().limit(limits=1):
        if threads == 1:
            return list(map(function, *items))
        contexts = (copy_context() for _ in count())  # one each: two threads cannot share one
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda context, *of: context.run(function, *of), contexts, *items))


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
