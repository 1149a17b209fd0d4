"""The documentation site: it is built without a broken link, and asks no other server for anything."""

import doctest
import re
import subprocess
import sys

import pytest
from helpers import ROOT

LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]* src="((?:https?:)?//[^"]*)|<link[^>]* rel="(?:stylesheet|preconnect)"[^>]*//'
)


def test_the_lines_of_the_reference_print_what_it_says(workdir):
    for needed in ("run.json", "runs"):
        (workdir / needed).symlink_to(ROOT / needed)
    found = doctest.testfile(str(ROOT / "docs/pages/reference/highway_lab.md"), module_relative=False, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0


@pytest.mark.slow
def test_the_site_has_pages_programs_notebooks_reference_and_article_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    words = ["build", "--strict", "--config-file", "docs/mkdocs.yml", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    for page, words in {
        "index.html": "What we found",
        "highway_networks.py.html": "highway_backward",
        "examples/highway_layer.ipynb.html": "data:image/png",
        "reference/highway_networks.html": "units in each block (a positive number)",  # as `help` lists them
        "reference/highway_networks.html#fields": "factors on the losses of the training samples",
        "reference/highway_estimators.html": "trained on the cross-entropy",  # of a class that is made
    }.items():
        assert words in pages[page.partition("#")[0]], page
    for page in (page for page in pages if page.startswith("reference/")):
        shown = re.sub("<[^>]*>", "", re.sub(r"(?s)<details class=\"mkdocstrings-source.*?</details>", "", pages[page]))
        for noise in ("hyperparameter(", "str(object", "__repr__"):  # how a field is made, what its type says of itself
            assert noise not in shown, page
    assert "<table>" in pages["experiments/index.html"]
    assert (tmp_path / "viz/gate_explorer.html").read_bytes() == (ROOT / "viz/gate_explorer.html").read_bytes()
    assert [page for page, text in pages.items() if LOADED.search(text)] == []
