"""A hook of MkDocs: the site is the checkout. Committed files keep their places, so the forge's links are the site's.

Markdown is a page, and so are programs and notebooks (`NAME.py.html`). A folder without a README.md has a page that
lists its files. All else, such as pictures, logs and the article, is a file as it is.
"""

import ast
import json
import posixpath
import re
import subprocess
from importlib import import_module
from inspect import getdoc
from linecache import getline
from pathlib import Path
from textwrap import indent

from griffe import Docstring, Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()[^):#\s]+(?=[)#])")
CODE = "---\ntitle: {0}\nhide: [navigation, toc]\nsearch: {{exclude: true}}\n---\n# {0}\n\n```` python\n{1}````\n"


class Source(File):
    """A program or a notebook, shown as the page `NAME.py.html` or `NAME.ipynb.html`."""

    @property
    def name(self):
        return posixpath.basename(self.src_uri)

    def is_documentation_page(self):
        return True


class Docstrings(Extension):
    """Lets the reference show what the code says in its own way."""

    def on_instance(self, *, obj, **_):
        """Keep the columns of a paragraph that has columns; leave out what Python calls, such as __repr__.

        A class whose hyperparameters are listed by `documented` has the docstring that `help` shows, as a list.
        """
        if obj.name.startswith("__"):
            obj.public = False
        if obj.is_class and any(str(of.value).startswith("documented(") for of in obj.decorators):
            text = getdoc(getattr(import_module(obj.module.path), obj.name))
            obj.docstring = Docstring(re.sub(r"(?m)^(?=\w+ = )", "\n- ", text), parent=obj)
        if obj.docstring:
            parts = obj.docstring.value.split("\n\n")
            columns = (re.search(r"^\S.*\S {2,}\S", part) for part in parts)
            kept = (indent(part, "    ") if of else part for part, of in zip(parts, columns, strict=True))
            obj.docstring.value = "\n\n".join(kept)

    def on_attribute_instance(self, *, node, attr, **_):
        """Show what a comment behind a field says, and a hyperparameter in signatures only: a docstring lists it."""
        if isinstance(node, ast.AnnAssign):
            _, _, comment = getline(str(attr.filepath), node.end_lineno).partition("  # ")
            attr.docstring = attr.docstring or (Docstring(comment.strip(), parent=attr) if comment else None)
        match getattr(node, "value", None):
            case ast.Call(func=ast.Name("hyperparameter")):
                attr.value = repr(getattr(getattr(import_module(attr.module.path), attr.parent.name), attr.name))
                attr.public = False
        if attr.analysis == "dynamic" and "property" not in attr.labels:
            attr.docstring = None  # it is that of the default's type


def on_config(config):
    """Put the pages that match a pattern of the navigation in its place, README.md first."""
    for section in config.nav:
        for title, pattern in section.items():
            if "*" in pattern:
                found = sorted(ROOT.glob(pattern), key=lambda path: (path.stem != "README", path.stem))
                section[title] = [path.relative_to(ROOT).as_posix() for path in found]


def on_files(files, config):
    """Add the committed files, and a page for each folder that has none."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    ).stdout.split()
    committed = [path for path in tracked if not path.startswith((".", "docs/", "tests/"))]
    for path in committed:
        if path.endswith((".py", ".ipynb")):
            files.append(Source.generated(config, path, content=(program if path.endswith("py") else notebook)(path)))
        else:
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for folder in {path.rpartition("/")[0] for path in committed} - {""}:
        if f"{folder}/README.md" not in committed:
            names = [path.removeprefix(f"{folder}/") for path in committed if path.startswith(f"{folder}/")]
            listing = "\n".join(f"- [{name}]({name})" for name in names)
            files.append(File.generated(config, f"{folder}/README.md", content=f"# {folder}\n\n{listing}\n"))
    return files


def program(path):
    """Return the page of a program: its code."""
    return CODE.format(posixpath.basename(path), (ROOT / path).read_text(encoding="utf-8"))


def notebook(path):
    """Return the page of a notebook: its text, its code, and what that printed and drew."""
    parts = []
    for cell in json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```` python\n{text}\n````")
        for output in cell.get("outputs", []):
            if output["output_type"] == "display_data":
                parts.append(f"![picture](data:image/png;base64,{output['data']['image/png'].strip()})")
            else:
                parts.append(f"```` text\n{''.join(output['text'])}\n````")
    return "\n\n".join(parts)


def on_page_markdown(markdown, page, config, files):
    """Turn links to folders into links to their pages, and let Markdown be Markdown in what is folded."""
    place = posixpath.dirname(page.file.src_uri)

    def with_page(link):
        readme = posixpath.normpath(posixpath.join(place, link[0], "README.md"))
        return posixpath.relpath(readme, place or ".") if readme in files.src_uris else link[0]

    return LINK.sub(with_page, markdown).replace("<details>", "<details markdown>")
