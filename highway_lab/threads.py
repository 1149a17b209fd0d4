"""The limit on BLAS threads, under which the laboratory trains and measures."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@functools.cache
def blas_pools() -> Any:
    """Find the thread pools of the BLAS that NumPy uses."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


_lock = threading.Lock()
_limits: list[Any] = []  # the same, for each time that a thread is inside `one_thread`


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one BLAS thread, as bits depend on their number, and no warnings: a loss that overflows is recorded.

    The limit is that of the process: it lasts until the last of several threads of Python has left.
    """
    with _lock:
        _limits.append(limit := _limits[0] if _limits else _in_control().limit(limits=1))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _lock:
            _limits.pop()
            if not _limits:
                _in_control()
                limit.restore_original_limits()


def _in_control() -> Any:
    """Return the pools, under the control of this thread: newer versions of threadpoolctl heed the first one alone."""
    for pool in blas_pools().lib_controllers:
        getattr(pool, "clear_controlling_thread", lambda force: None)(force=True)
    return blas_pools()
