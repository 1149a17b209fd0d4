"""Start of every program: a package that is missing is told in one line."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec


def start(module: str) -> None:
    """Run `main` of a module and exit with the code that it returns.

    The module is imported by its name, as worker processes cannot import what __main__ defines.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # a closed stream, whose number a file would get
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdout", "stderr"):  # which a service may lack, and whose encoding may lack a character
        setattr(sys, name, stream := getattr(sys, name) or open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        if hasattr(stream, "reconfigure"):  # a notebook's takes any
            stream.reconfigure(errors="backslashreplace")
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


def refuse_parts() -> None:
    """Exit, and say what to type, where `python -m PACKAGE.NAME` was typed: a part of a program does nothing alone.

    A package calls it where it is imported: Python does that first, and has `-m` for the program's name meanwhile.
    """
    package, *parts = sys.orig_argv[sys.orig_argv.index("-m") + 1].split(".") if sys.argv[0] == "-m" else [""]
    if parts and parts[-1] != "__main__":
        found = f"expected python -m {package} NAME, found {package}.{'.'.join(parts)}"
        print(f"{package}: error: {found}; python -m {package} lists the names", file=sys.stderr)
        sys.exit(2)


def highway_networks() -> None:
    """Run the command of an installed package."""
    start("highway_lab.programs")
