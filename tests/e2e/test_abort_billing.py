"""What is billed for answers that did not come whole: by the provider's rule, and estimated by what its reports have taught."""
import json
import pathlib
import re
import subprocess

import pytest

from harness import BINARY, SLOW, Gateway, Provider, Reply, good, openai_chunk, openai_events, provider_conf, stream, wait_for

BUDGET_MS = 250
PROMPT = "Say something that is as long as it has to be."
RATES = {"input": "2.00", "output": "8.00"}


class Moods:
    """Answers with a usage report until told to hang before the first token, or after some."""

    def __init__(self):
        self.mood = "well"
        self.words = ["word "] * 20
        self.usage = (12, 50)

    def __call__(self, req):
        if self.mood == "hang":
            return Reply(end="hang")
        if self.mood == "stall":
            return stream(openai_chunk({"role": "assistant"}), openai_chunk({"content": "x" * 120}), end="hang", last=False)
        return stream(*openai_events(self.words, usage=self.usage))


@pytest.fixture
def world(tmp_path):
    moods = Moods()
    a, b = Provider(moods), Provider(good("openai"))
    made = []

    def start(**more):
        g = Gateway(tmp_path, {"providers": {"a": provider_conf(a.port, **more), "b": provider_conf(b.port)},
                               "prices": {"m-a": RATES, "m-b": RATES},
                               "routes": [{"model": "r", "chain": [{"provider": "a", "model": "m-a", "ttft_budget_ms": BUDGET_MS},
                                                                   {"provider": "b", "model": "m-b"}]}]})
        made.append(g)
        return g
    start.moods = moods
    yield start
    for g in made:
        g.stop()
    a.close()
    b.close()


def first(g, r):
    row = g.row(r)
    assert row["cost_nusd"] == sum(x["cost_nusd"] for x in row["attempts"]), row
    return row["attempts"][0]


def prompt_tokens(row):
    return -(-row["prompt_bytes"] // 4)


@pytest.mark.parametrize("rule,words,is_billed,output", [
    ("input_and_generated", "billed for input and output so far (configured)", True, 0),
    ("input", "billed for input alone (configured)", True, 0),
    ("runs_on", "billed as if it ran on to its end (configured)", True, 300),
    ("nothing", "not billed, being broken off (configured)", False, 0),
])
def test_what_is_cut_by_its_budget(world, rule, words, is_billed, output):
    world.moods.mood = "hang"
    g = world(abort_billing=rule)
    r = g.chat(content=PROMPT, max_tokens=300)
    assert r.status == 200 and r.text() == "Hello from B."
    one = first(g, r)
    row = g.row(r)
    assert one["outcome"] == "ttft_timeout" and one["decision"] == "next link: ttft_timeout; " + words, one
    assert one["tokens_from"] == ("estimated" if is_billed else "unbilled")
    assert one["tokens"]["input"] == (prompt_tokens(row) if is_billed else 0) and one["tokens"]["output"] == output
    assert one["cost_nusd"] == one["waste_nusd"] == one["tokens"]["input"] * 2000 + output * 8000


@pytest.mark.parametrize("vendor,words,output", [
    ("groq", "billed as if it ran on to its end (observed)", 300),
    ("anthropic", "billed for input and output so far (observed)", 0),
    ("generic", "billed for input and output so far (assumed)", 0),
])
def test_as_the_table_says_of_the_vendor(world, vendor, words, output):
    world.moods.mood = "hang"
    g = world(vendor=vendor)
    one = first(g, g.chat(content=PROMPT, max_tokens=300))
    assert one["decision"].endswith(words) and one["tokens"]["output"] == output, one


def leave_in_the_middle(g):
    """A client that leaves once it has some of the answer."""
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": PROMPT}]})
    head = b""
    s.settimeout(10 * SLOW)
    while b"xxxx" not in head:
        got = s.recv(65536)
        assert got, head
        head += got
    s.close()
    return re.search(rb"x-ringmain-request-id: (\S+)", head, re.I).group(1).decode()


def test_estimates_follow_the_reports_and_outlive_a_restart(world):
    g = world()
    for _ in range(25):  # 100 bytes of text for 50 tokens: two bytes a token
        r = g.chat(content=PROMPT)
        assert r.status == 200
    row = g.row(r)
    per_token = row["prompt_bytes"] / 12

    def link():
        return g.admin("/api/health").json()["routes"][0]["links"][0]["estimates"]
    wait_for(lambda: link()["output"]["samples"] == 25, 5 * SLOW)
    told = link()
    assert told["output"] == {"samples": 25, "is_known": True, "bytes_per_token": 2.0, "error": 0.0}
    assert abs(told["prompt"]["bytes_per_token"] - per_token) < 0.001 and told["prompt"]["is_known"]
    metrics = g.admin("/metrics").body.decode()
    assert 'ringmain_estimate_bytes_per_token{provider="a",model="m-a",side="output"} 2.000' in metrics
    assert 'ringmain_estimate_error_ratio{provider="a",model="m-a",side="output"} 0.000' in metrics
    world.moods.mood = "stall"

    def check():
        one = first(g, leave_in_the_middle(g))
        assert one["outcome"] == "client_cancelled" and one["tokens_from"] == "estimated"
        assert (one["tokens"]["input"], one["tokens"]["output"]) == (12, 60), one
        assert one["decision"] == "the client left; billed for input and output so far (assumed)"
    check()
    assert "ringmain_estimated_usd_total 0.000504000\n" in g.admin("/metrics").body.decode()  # 12 x 2 + 60 x 8
    g.stop()
    summed = ledger_sum(g)
    parts = summed["tokens_from"]
    assert (parts["reported"]["attempts"], parts["estimated"]["attempts"], parts["unbilled"]["attempts"]) == (25, 1, 0)
    assert parts["estimated"]["cost_nusd"] == 12 * 2000 + 60 * 8000
    assert parts["reported"]["cost_nusd"] + parts["estimated"]["cost_nusd"] == summed["cost_nusd"]
    output = summed["estimates"]["targets"][1]
    assert output == {"provider": "a", "model": "m-a", "side": "output", "samples": 25, "is_known": True,
                      "bytes_per_token": 2.0, "error": 0.0}
    g = world()
    check()


def ledger_sum(g):
    out = subprocess.run([BINARY, "ledger", "sum", "--json", "-c", str(g.path)], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def test_a_state_file_that_is_damaged_tells_nothing(world):
    g = world()
    for _ in range(3):
        assert g.chat(content=PROMPT).status == 200
    g.stop()
    state = g.dir / "ringmain.db.state"
    assert ledger_sum(g)["estimates"]["targets"]
    state.write_text(state.read_text().replace("ratio 3 ", "ratio 4 "))
    assert ledger_sum(g)["estimates"] is None
    state.unlink()
    assert ledger_sum(g)["estimates"] is None


def test_every_vendor_of_the_table_can_be_named_and_an_unknown_one_is_an_error(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    rows = json.loads((root / "data" / "abort_billing.json").read_text())["rows"]
    vendors = sorted({r["vendor"] for r in rows} - {"*"})
    assert len(vendors) > 20

    def check(names):
        providers = {f"p{i}": provider_conf(9, vendor=v) for i, v in enumerate(names)}
        (tmp_path / "v.yaml").write_text(json.dumps({"providers": providers, "routes": [{"model": "r", "order": list(providers)}]}))
        return subprocess.run([BINARY, "check", "-c", str(tmp_path / "v.yaml")], capture_output=True, text=True, timeout=60 * SLOW)

    p = check(vendors)
    assert p.returncode == 0, p.stderr
    p = check(["novitta"])
    assert p.returncode == 1 and '"vendor" is "novitta"; expected one of openai, azure,' in p.stderr, p.stderr
    assert 'did you mean "novita"?' in p.stderr
