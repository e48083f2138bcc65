"""Two minutes of the soak (RINGMAIN_SOAK_MINUTES for another time), and the proof that it would see a leak."""
import os
import pathlib
import subprocess
import sys

SOAK = pathlib.Path(__file__).resolve().parent / "soak.py"


def start(*options):
    return subprocess.Popen([sys.executable, str(SOAK), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_planted_leak_is_seen():
    runs = {kind: start("--minutes", "0.15", "--clients", "6", "--plant", kind) for kind in ("memory", "descriptor")}
    said = {kind: run.communicate()[0] for kind, run in runs.items()}
    assert runs["memory"].returncode == 1 and "FAULT: memory grows" in said["memory"], said["memory"]
    assert runs["descriptor"].returncode == 1 and "FAULT: left behind: {'descriptors':" in said["descriptor"], said["descriptor"]
    for text in said.values():  # and nothing else was wrong
        assert "have no row" not in text and "differ" not in text.replace("medians differ", ""), text


def test_nothing_grows_under_mixed_load():
    run = start("--minutes", os.environ.get("RINGMAIN_SOAK_MINUTES", "2"))
    said = run.communicate()[0]
    print("\n" + said)
    assert run.returncode == 0, said
