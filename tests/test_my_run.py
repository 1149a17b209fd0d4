"""`make run`: it keeps the run before, says what is other, and leaves all as it was if it fails."""

import json
from pathlib import Path

from helpers import files_below

import my_run

SHORT = ["--dataset", "digits", "--depth", "2", "--epochs", "1", "--n-train", "50", "--n-test", "20"]


def test_a_run_is_compared_with_the_one_before_which_is_kept(workdir, monkeypatch, capsys):
    monkeypatch.setattr(my_run.gif, "has_animation", lambda log: False)
    assert my_run.main(SHORT) == 0
    first = files_below(workdir / "my-run")
    assert "README.md's numbers are of MNIST, these are of digits." in capsys.readouterr().out
    assert my_run.main([*SHORT, "--lr", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "other than before: lr 0.005 -> 0.01\nbefore: accuracy highway" in said
    assert files_below(workdir / "my-run/before") == first
    assert "before_and_now.png" in files_below(workdir / "my-run")
    assert "to draw it" not in said
    monkeypatch.setattr(my_run.viz, "draw", lambda log, folder: [folder])  # which takes its time
    assert my_run.main([*SHORT, "--lr", "0.01"]) == 0  # nothing is other, so what is kept is still the first
    assert "other than before: lr 0.005 -> 0.01\n" in capsys.readouterr().out
    assert files_below(workdir / "my-run/before") == first
    log = Path("my-run/run.json")
    for name, value in json.loads(log.read_text("utf-8"))["environment"].items():
        if name in ("code", "samples"):  # as if both had been others
            log.write_text(log.read_text("utf-8").replace(value, "0" * 12), "utf-8")
    Path("my-run/notes.png").write_text("mine", "utf-8")
    Path("my-run/before/notes.txt").write_text("mine", "utf-8")
    assert my_run.main([*SHORT, "--lr", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "other than before: data digits (000000000000) -> " in said
    assert "; code of the mathematics 000000000000 -> " in said
    assert "--check-gradients\n" in said
    assert {"before_and_now.png", "notes.png"} & files_below(workdir / "my-run").keys() == {"notes.png"}
    assert Path("my-run/before/notes.txt").exists()


def test_a_run_that_fails_leaves_all_as_it_was(workdir, refused):
    assert my_run.main(SHORT) == 0
    before = files_below(workdir)
    refused(my_run.main, [*SHORT, "--lr", "none"])
    assert files_below(workdir) == before
    picture = Path("my-run/learning_curves.png")
    picture.unlink()
    picture.mkdir()
    before = files_below(workdir)
    refused(my_run.main, [*SHORT, "--lr", "0.01"])
    assert files_below(workdir) == before


def test_what_is_no_log_of_today_is_kept_and_what_is_a_user_s_is_not_replaced(workdir, refused, capsys):
    assert my_run.main(SHORT) == 0
    log, old = Path("my-run/run.json"), b"of another version"
    log.write_bytes(old)
    assert my_run.main(SHORT) == 0
    assert Path("my-run/before/run.json").read_bytes() == old
    Path("my-run/before_and_now.png").write_bytes(b"mine")
    before = files_below(workdir)
    assert "before_and_now.png: expected no file, or a picture of a log" in refused(my_run.main, SHORT)
    assert files_below(workdir) == before
    Path("my-run/before_and_now.png").unlink()
    Path("my-run/before/learning_curves.png").write_bytes(b"mine")
    before = files_below(workdir)
    assert "before/learning_curves.png: expected no file, or" in refused(my_run.main, [*SHORT, "--lr", "0.01"])
    assert files_below(workdir) == before
    Path("my-run/before/learning_curves.png").unlink()
    before = files_below(workdir)
    capsys.readouterr()
    assert my_run.main(["--check-gradients"]) == 0
    assert "all gradients are right" in capsys.readouterr().out
    assert files_below(workdir) == before
