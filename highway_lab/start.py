"""Start of every program, before imports that take a second: Ctrl-C ends them with exit code 130 and no traceback."""

import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter


def start(module: str, main: str = "main") -> None:
    """Run `main`, an attribute of a module, and exit with the code that it returns.

    The module is imported by its name, as worker processes cannot import what __main__ defines.
    """
    backend = os.environ.get("MPLBACKEND", "")
    if backend and not backend.startswith("module://"):
        os.environ["MPLBACKEND"] = "agg"  # matplotlib may not know the user's, and no window is opened
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # an exception could be lost in an import's own handlers
    try:
        code = attrgetter(main)(import_module(module))()
        # Python would end by SIGINT if Ctrl-C came during an exec, such as a dataclass's; this makes it forget.
        exec("")
    except ModuleNotFoundError as error:
        if find_spec((error.name or "").partition(".")[0] or "os"):  # a part of a package that is there
            raise
        program = os.path.basename(sys.argv[0])
        found = f"expected the packages that this program needs, found: {error}"
        print(f"{program}: error: {found}; install the project with pip, which brings them", file=sys.stderr)
        code = 2
    finally:
        if backend:
            os.environ["MPLBACKEND"] = backend
        signal.signal(signal.SIGINT, before)  # a program that a notebook runs is not the last thing in its process
    sys.exit(code)


def highway_networks() -> None:
    """Run the command of an installed package."""
    start("highway_lab.programs")
