"""Loops share no written cache line on the request path, and take no lock. Two workers serve calls and streams at the same
time in a program that counts who touches which line (watch.c, `make lines`); what is touched by both loops for calls, and
not just now and then, is a fault, with the places in the code that did it. Exact counts: the machine's speed is nothing to
them."""
import collections
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "counts"))
from counting import (BINARY, Gateway, Provider, config, openai_events, read_response, request_bytes, stream, together,  # noqa: E402
                      whole_answer)

N_CALLS = 400    # of each kind, by each of the two loops
OFTEN = N_CALLS  # in 2 N_CALLS calls. What is looked at less often than with every second call is no part of a call's path:
#                  a core adds up the others' token ratios once in 16 calls (plan/ratio.c)
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
WHOLE, STREAMED = request_bytes(2000), request_bytes(2000, stream=True)

Touch = collections.namedtuple("Touch", "reads read_from writes written_from")


def answer(request):
    return stream(b"".join(openai_events([" word"] * 10))) if request.json.get("stream") else whole_answer()


def call(s, request):
    s.sendall(request)
    r = read_response(s)
    assert r.status == 200 and r.is_whole, (r.status, r.body)
    return r


def core_of(response):
    """The worker, which an id tells (ledger_new_id)."""
    n = 0
    for c in response.headers["x-ringmain-request-id"].removeprefix("req_"):
        n = n * 32 + DIGITS.index(c)
    return n >> 16 & 63


def one_connection_each(gateway):
    """A connection to each of the two workers: the kernel deals them out as it likes."""
    found, others = {}, []
    for _ in range(200):
        s = gateway.connect()
        if found.setdefault(core_of(call(s, WHOLE)), s) is not s:
            others.append(s)
        if len(found) == 2:
            break
    for s in others:
        s.close()
    assert sorted(found) == [0, 1]
    return found.values()


def serve_calls(gateway):
    def run(s):
        for _ in range(N_CALLS):
            call(s, WHOLE)
            call(s, STREAMED)
        s.close()
    together([lambda s=s: run(s) for s in one_connection_each(gateway)])


def names_of(offsets):
    """{offset: "function file:line"}"""
    offsets = sorted(offsets)
    out = subprocess.run(["addr2line", "-s", "-f", "-e", BINARY, *[hex(o - 1) for o in offsets if o]], capture_output=True, text=True, check=True).stdout.split("\n")
    return dict(zip([o for o in offsets if o], [f"{f} {at}" for f, at in zip(out[::2], out[1::2])]))


class Watched:
    def __init__(self, path):
        self.threads, self.lines = {}, collections.defaultdict(dict)
        for row in path.read_text().splitlines():
            kind, *v = row.split()
            if kind == "thread":
                self.threads[int(v[0])] = (int(v[1], 16), int(v[2]), int(v[3]))
            else:
                self.lines[v[0]][int(v[1])] = Touch(int(v[2]), int(v[3], 16), int(v[4]), int(v[5], 16))
        starts = names_of({t[0] for t in self.threads.values()})
        self.loops = [n for n, t in self.threads.items() if starts[t[0]].startswith("run_worker ")]

    def shared(self):
        """Lines that both loops touched often, and at least one of them wrote often: what did it."""
        a, b = self.loops
        both = [(by[a], by[b]) for by in self.lines.values() if a in by and b in by]
        found = [t for t in both if min(x.reads + x.writes for x in t) >= OFTEN and max(x.writes for x in t) >= OFTEN]
        names = names_of({o for t in found for x in t for o in (x.read_from, x.written_from)})
        return sorted(f"{x.writes} writes ({names.get(x.written_from)}), {x.reads} reads ({names.get(x.read_from)}); "
                      f"{y.writes} writes ({names.get(y.written_from)}), {y.reads} reads ({names.get(y.read_from)})" for x, y in found)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    out = folder / "touched"
    provider = Provider(answer)
    try:
        gateway = Gateway(folder, {**config(provider.port), "workers": 2}, env={"RINGMAIN_LINES": str(out)})
        try:
            serve_calls(gateway)
        finally:
            code = gateway.stop(bound=60)
        assert code == 0, gateway.log()
    finally:
        provider.close()
    assert out.exists(), "the program does not count: build it with -Dlines=true (make lines)"
    return Watched(out)


def test_two_loops_were_watched(watched):
    assert len(watched.loops) == 2
    # the consumer of a ring reads what the loop wrote: were nothing seen of that, nothing would be seen of faults either
    for loop in watched.loops:
        assert any(by[loop].writes >= OFTEN and len(by) > 1 for by in watched.lines.values() if loop in by)


def test_no_written_line_is_shared_between_loops(watched):
    found = watched.shared()
    assert not found, "\n" + "\n".join(found)


def test_no_lock_is_taken_for_calls(watched):
    for loop in watched.loops:
        assert watched.threads[loop][2] < OFTEN, f"{watched.threads[loop][2]} mutexes taken for {2 * N_CALLS} calls"
