"""examples/async/store_pair.py: a process that samples and one that trains, which are killed and
started again, train on each group once."""
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

MODEL = ROOT / "tests/fixtures/gguf/tiny_llama_half.gguf"
PROGRAM = pathlib.Path(ROOT / "examples/async/store_pair.py")
STEPS = 6


class Process:
    """A role, whose lines are read as they come."""

    def __init__(self, role, out, *more):
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, role, MODEL, out, "--steps", str(STEPS), *more,
             "--set", "runtime.threads=1"], stdout=subprocess.PIPE, text=True)
        self.lines = []

    def read_until(self, beginning):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith(beginning):
                return
        raise AssertionError(f"{self.lines} has no {beginning}")

    def end(self):
        if not self.process.stdout.closed:
            self.lines += [line.rstrip() for line in self.process.stdout]
            self.process.stdout.close()
        assert self.process.wait(timeout=200) == 0, self.lines
        return self.lines

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.parametrize("killed", [None, "sample", "train"])
def test_each_group_is_trained_on_once(tmp_path, killed):
    running = {"train": Process("train", tmp_path)}
    for part in ("1/2", "2/2"):
        running["sample " + part] = Process("sample", tmp_path, "--part", part)
    try:
        if killed:
            running["train"].read_until("trained step 2")
            name = "train" if killed == "train" else "sample 2/2"
            running.pop(name).kill()
            part = ("--part", "2/2") if killed == "sample" else ()
            running[name] = Process(killed, tmp_path, *part)
        *_, last = running["train"].end()
        for process in running.values():
            process.end()
    finally:
        for process in running.values():
            process.kill()
    groups = 4 * STEPS
    assert re.fullmatch(rf"{STEPS} steps on {groups} groups, {groups} different ones; weights "
                        "[0-9a-f]{16}", last), last
    left = list((tmp_path / "store/ready").rglob("*.rlbuf"))
    assert killed or not left, left


def test_the_program_refuses_what_is_wrong(tmp_path):
    for words, status, text in (
            (("sample", MODEL, tmp_path, "--steps", "0"), 2, "--steps must be 1 or more"),
            (("sample", MODEL, tmp_path, "--part", "3/2"), 2, "--part one of"),
            (("train", MODEL, tmp_path, "--set", "optimizer.lrr=1"), 1, "optimizer.lr")):
        done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True,
                              timeout=200, check=False)
        assert (done.returncode, text in done.stderr) == (status, True), done.stderr
