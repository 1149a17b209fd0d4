"""Picture and table."""

FIGURES = {}
TABLES = {}
