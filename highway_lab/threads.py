"""The limit on BLAS threads, under which the laboratory trains and measures."""

import functools
import os
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


_lock = threading.RLock()
_limits: list[tuple[int, Any]] = []  # a thread and its limit, for each time it is inside `one_thread`


def outlive_forks(lock: Any) -> None:
    """Let a lock be free in a process that forks off, whichever thread held it here: the fork waits for it."""
    if hasattr(os, "register_at_fork"):  # Windows has none
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _leave_lost_threads() -> None:
    """Lift, in a process that was forked off, the limit of threads that it has not got."""
    lost = _limits.copy()
    _limits[:] = [inside for inside in lost if inside[0] == threading.get_ident()]
    if lost and not _limits:
        _in_control()
        lost[0][1].restore_original_limits()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one BLAS thread, as bits depend on their number, and no warnings: a loss that overflows is recorded.

    The limit is that of the process: it lasts until the last of several threads of Python has left.
    """
    with _lock:
        limit = _limits[0][1] if _limits else _in_control().limit(limits=1)
        _limits.append(inside := (threading.get_ident(), limit))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _lock:
            _limits.remove(inside)
            if not _limits:
                _in_control()
                limit.restore_original_limits()


def _in_control() -> Any:
    """Return the pools, under the control of this thread: newer versions of threadpoolctl heed the first one alone."""
    for pool in blas_pools().lib_controllers:
        getattr(pool, "clear_controlling_thread", lambda force: None)(force=True)
    return blas_pools()


outlive_forks(_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_lost_threads)
