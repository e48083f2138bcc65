import json
import os
import pathlib
import subprocess

import pytest

from browser import Browser

HERE = pathlib.Path(__file__).resolve().parent
BINARY = pathlib.Path(os.environ.get("RINGMAIN_BINARY", HERE.parent.parent / "build/debug/ringmain"))
MAKER = BINARY.parent / "tests/report/report_page"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    b = Browser(tmp_path_factory.mktemp("chromium"))
    yield b
    b.close()


@pytest.fixture
def report(browser, tmp_path):
    """report(results, width=…, dark=…): the page of these results, open in a tab of its own. Results are an object, JSON as bytes,
    or the name of a file here. A page that has no tab setting of its own may be given `tab`, to be used again."""
    opened, n = [], 0

    def make(results, tab=None, **kw):
        nonlocal n
        if isinstance(results, str):
            results = (HERE / results).read_bytes()
        elif not isinstance(results, bytes):
            results = json.dumps(results).encode()
        n += 1
        path = tmp_path / f"report{n}.html"
        path.write_bytes(subprocess.run([MAKER], input=results, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
        if tab is None:
            tab = browser.page(**kw)
            opened.append(tab)
        return tab.open(path)

    yield make
    for tab in opened:
        tab.close()


@pytest.fixture
def full():
    return json.loads((HERE / "full.json").read_bytes())
