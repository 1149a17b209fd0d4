"""Make the notebooks of examples/ from the programs there, and run them: `make notebooks`.

A cell begins at a line `# %% `. The comment that begins a cell becomes text, and so does the docstring above all
cells, whose first sentence is the title.
"""

import ast
import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

EXAMPLES = Path(__file__).parents[1] / "examples"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook_of(program: str) -> nbformat.NotebookNode:
    """Return the notebook of a program in cells, before it is run."""
    title, _, text = ast.get_docstring(ast.parse(program)).partition(".")
    cells = [new_markdown_cell(f"# {title}\n\n{text.strip()}".strip())]
    for cell in re.split(r"^# %% ", program, flags=re.MULTILINE)[1:]:
        comment, code = re.fullmatch(r"([^\n]*\n(?:# [^\n]*\n)*)(.*)", cell, re.DOTALL).groups()
        text = comment.replace("\n# ", "\n").strip()
        cells += [new_markdown_cell(text), new_code_cell(code.strip())]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # the same in every run
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells in a folder, and keep what they print and draw; raises CellExecutionError."""
    client = NotebookClient(
        notebook,
        timeout=600,
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],  # of the kernel, which warns of its own socket
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})  # the same bits on any number of CPUs


if __name__ == "__main__":
    for path in sorted(EXAMPLES.glob("*.py")):
        if "\n# %% " not in (program := path.read_text(encoding="utf-8")):
            continue  # one without cells
        notebook = notebook_of(program)
        run(notebook, EXAMPLES)
        path.with_suffix(".ipynb").write_text(f"{nbformat.writes(notebook)}\n", encoding="utf-8", newline="\n")
        print(f"made {path.with_suffix('.ipynb')}")
