"""Start of every program: a package that is missing is told in one line."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec


def start(module: str) -> None:
    """Run `main` of a module and exit with the code that it returns.

    The module is imported by its name, as worker processes cannot import what __main__ defines.
    """
    try:
        code = import_module(module).main()
    except ModuleNotFoundError as error:
        if find_spec((error.name or "").partition(".")[0] or "os"):  # a part of a package that is there
            raise
        program = os.path.basename(sys.argv[0])
        found = f"expected the packages that this program needs, found: {error}"
        print(f"{program}: error: {found}; install the project with pip, which brings them", file=sys.stderr)
        code = 2
    sys.exit(code)


def highway_networks() -> None:
    """Run the command of an installed package."""
    start("highway_lab.programs")
