"""Tabulate a log of the elementwise functions."""

from highway_lab.figures import markdown

from .primitives import PrimitivesLog


def primitives_table(log: PrimitivesLog) -> str:
    """Return a table of the functions that the code uses, and of their alternatives."""
    rows = [
        [of.purpose, of.name, "yes" * of.used, str(of.microseconds), f"{of.gb_per_second:g}"] for of in log.primitives
    ]
    return markdown(["purpose", "NumPy", "used", "microseconds", "GB/s"], rows)


TABLES = {"primitives": primitives_table}
