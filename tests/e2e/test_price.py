"""ringmain price, its import, and ledger reprice: the real binary, its files and what it says of bad ones."""
import json
import os
import sqlite3
import subprocess

import pytest

from harness import BINARY, SLOW, Reply, error_json, good, http, whole

NUSD = 1_000_000_000


def run(*args, cwd, code=0, stdin=None):
    p = subprocess.run([BINARY, *map(str, args)], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == code, (p.returncode, p.stdout[-2000:], p.stderr[-2000:])
    return p.stdout, p.stderr


CONFIG = """
ledger: sqlite:ring.db
prices:
  claude-sonnet-5: { input: 2, output: 10, cache_read: 0.2, cache_write_5m: 2.5 }
providers:
  openai:    { dialect: openai,    base_url: "https://api.openai.com/v1", api_key: "k" }
  anthropic: { dialect: anthropic, base_url: "https://api.anthropic.com", api_key: "k" }
routes:
  - model: flagship
    chain:
      - { provider: openai,    model: gpt-5.6-sol, ttft_budget_ms: 15000 }
      - { provider: anthropic, model: claude-sonnet-5 }
  - { model: gpt-new, order: [openai] }
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "ringmain.yaml").write_text(CONFIG)
    return tmp_path


# ---- the article

def test_article(place):
    out, _ = run("price", "--article", "--json", cwd=place)
    a = json.loads(out)
    assert len(a["figures"]) == 19 and all(f["agrees"] for f in a["figures"])
    by_name = {(f["section"], f["figure"]): f for f in a["figures"]}
    twice = by_name["cached prefix of 15,000 tokens", "1st failover, with cache write"]
    assert twice["as_published_nusd"] == 76.5 * NUSD and twice["bill_nusd"] == 46.5 * NUSD
    tight = by_name["timeouts, added cost", "too tight, 5 % of healthy calls"]
    assert tight["as_published_change"] == "+5.3%" and tight["net_nusd"] == 0.075 * NUSD
    assert len(a["corrections"]) == 3
    text, _ = run("price", "--article", cwd=place)
    for line in a["corrections"]:
        assert line in text
    assert text.count("$25.01 +0.03 %") == 2  # printed, and ours


# ---- a route

def bills(report):
    return {p["pattern"]: p for p in report["patterns"]}


def test_own_chain_gives_the_articles_figures(place):
    out, _ = run("price", "--route", "flagship", "--failure-rate", "0.5%,0", "--prefix", 15000, "--too-tight", "5%", "--json", cwd=place)
    r = json.loads(out)
    p = bills(r)
    assert p["sequential"] == {"pattern": "sequential", "bill_nusd": 25_007_500_000, "gross_nusd": 87_500_000, "net_nusd": 7_500_000}
    assert p["outage of link 1, hanging"]["bill_nusd"] == 26.5 * NUSD
    assert p["budget too tight for healthy calls"]["net_nusd"] == 0.075 * NUSD
    assert p["link 2, writing its cache"]["bill_nusd"] == 46.5 * NUSD
    assert r["links"][0]["hung"] == 5_000_000_000 and r["unanswered"] == 0
    assert r["added_wait_us"] == 75_000  # 0.5 % wait for 15 s


def test_own_chain_by_flags(place):
    out, _ = run("price", "-c", "ringmain.yaml", "--route", "flagship", "--failure-rate", "1%", "--hang-share", "40%", "--input", 1000,
                 "--output", 100, "--waste-output", "25%", "--json", cwd=place)
    r = json.loads(out)
    # gpt-5.6-sol: 8.00 whole, 5.75 cut; claude-sonnet-5: 3.00 and 2.25; 0.4 % of 1 % hang again
    assert r["links"][0]["cost_nusd"] == round((0.99 * 8 + 0.004 * 5.75) * NUSD)
    assert r["links"][1]["cost_nusd"] == round((0.0099 * 3 + 0.00004 * 2.25) * NUSD)
    assert r["unanswered"] == 100_000_000
    text, _ = run("price", "--route", "flagship", "--hang-share", "0.4", cwd=place)
    assert "40.0000 %" in text and "assumed" in text


def test_a_hung_attempt_costs_what_its_provider_bills(place):
    """openai stops when it is cut: 17.50; the operator's own word goes before that; a share that is asked for before both."""
    def hung(rule, *args):
        (place / "ringmain.yaml").write_text(CONFIG.replace('openai.com/v1", api_key: "k"', f'openai.com/v1", api_key: "k", abort_billing: {rule}'))
        asked = ["price", "--route", "flagship", "--failure-rate", "100%,0", *args]
        r = json.loads(run(*asked, "--json", cwd=place)[0])
        return r["links"][0]["cut"], r["links"][0]["waste_nusd"] / NUSD, run(*asked, cwd=place)[0]
    for rule, usd in [("input_and_generated", 17.5), ("input", 10), ("runs_on", 25), ("nothing", 0)]:
        assert hung(rule)[:2] == (rule, usd)
    assert "openai/gpt-5.6-sol: an attempt that hangs is billed as if it ran on to its end (configured)" in hung("runs_on")[2]
    word, usd, text = hung("runs_on", "--waste-output", "10%")
    assert (word, usd) == ("input_and_generated", 11.5) and "an attempt that hangs is" not in text


@pytest.mark.parametrize("args, code, says", [
    (["--route", "flagship", "--failure-rate", "2"], 2, "--failure-rate is '2'"),
    (["--route", "flagship", "--failure-rate", "1%,2%,3%"], 2, "no more shares than the route has links"),
    (["--hang-share", "101%"], 2, "--hang-share is '101%'"),
    (["--input", "-1"], 2, "--input is '-1'"),
    (["--route", "nobody"], 1, "it has: flagship gpt-new"),
    ([], 1, "--route takes one of: flagship gpt-new"),
    (["--config", "none.yaml"], 1, "none.yaml"),
    (["--route", "flagship", "--from-ledger", "7d"], 1, "no such ledger"),
    (["--article", "--route", "flagship"], 2, "usage:"),
    (["--bogus"], 2, "usage:"),
    (["import", "--bogus", "x"], 2, "usage:"),
    (["import"], 2, "usage:"),
    (["import", "x", "--json"], 2, "usage:"),
    (["import", "none.json"], 1, "none.json: No such file"),
    (["import", "ringmain.yaml"], 1, "ringmain.yaml: line 2: not well-formed JSON"),
    (["import", "ringmain.yaml", "--valid-from", "soon"], 2, "--valid-from is 'soon'"),
])
def test_bad_asking(place, args, code, says):
    out, err = run("price", *args, cwd=place, code=code)
    assert says in err and out == ""


@pytest.mark.parametrize("args", [["--article"], ["--article", "--json"], ["--route", "flagship"], ["--help"]])
def test_a_report_that_cannot_be_written_is_a_failure(place, args):
    with open("/dev/full", "w") as full:
        p = subprocess.run([BINARY, "price", *args], cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW)
    assert p.returncode == 1 and p.stderr == "ringmain: standard output could not be written\n"


# ---- the book

CATALOGUE = {
    "sample_spec": {"mode": "chat", "input_cost_per_token": "text"},
    "gpt-new": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": "8e-06",
                "input_cost_per_token_above_200k_tokens": 4e-06, "output_cost_per_token_flex": 4e-06},
    "bad": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": -1, "input_cost_per_wish": 3},
    "draw": {"litellm_provider": "openai", "mode": "image_generation", "input_cost_per_image": 0.04},
}


def test_import_and_use(place):
    (place / "catalogue.json").write_text(json.dumps(CATALOGUE))
    out, err = run("price", "import", "catalogue.json", "-o", "prices.json", cwd=place)
    assert err == "" and "3 models: 1 with a price, 1 further prices of services, 1 tiers" in out
    assert "image_generation (1)" in out and "input_cost_per_wish (1, first in bad)" in out and "input_cost_per_token is negative" in out
    book = json.loads((place / "prices.json").read_text())
    assert [p["names"] for p in book["prices"]] == [["openai/gpt-new", "gpt-new"]] * 2
    assert book["prices"][1]["service"] == "flex"
    assert not [f for f in os.listdir(place) if f.startswith("prices.json.")]
    # to standard output, the report beside it; and for programs
    out, err = run("price", "import", "-", cwd=place, stdin=json.dumps(CATALOGUE))
    assert json.loads(out)["prices"] == book["prices"] and "3 models" in err
    out, _ = run("price", "import", "catalogue.json", "-o", "prices.json", "--json", cwd=place)
    assert json.loads(out)["not_understood"] == [{"word": "input_cost_per_wish", "n": 1, "first_in": "bad"}]
    # without the file the price is unknown; with it, it is the file's
    text, _ = run("price", "--route", "gpt-new", cwd=place)
    assert "unknown" in text and "give it one in `prices` or `price_file`" in text
    (place / "ringmain.yaml").write_text("price_file: prices.json\n" + CONFIG)
    r = json.loads(run("price", "--route", "gpt-new", "--json", cwd=place)[0])
    assert r["patterns"][0]["bill_nusd"] == 8 * NUSD  # 1,000 x (2,000 x 2 + 500 x 8) micro-dollars
    assert r["links"][0]["price_version"] == book["version"]
    r = json.loads(run("price", "--route", "gpt-new", "--input", 200001, "--output", 0, "--json", cwd=place)[0])
    assert r["patterns"][0]["bill_nusd"] == 200001 * 4 * NUSD // 1000


def test_bad_price_file(place):
    (place / "prices.json").write_text('{"version": "1", "prices": [\n{"names": ["m"], "input": 3}]}')
    (place / "ringmain.yaml").write_text("price_file: prices.json\n" + CONFIG)
    out, err = run("check", "-c", "ringmain.yaml", cwd=place, code=1)
    assert 'ringmain.yaml:1:13: error: "price_file": line 2: price 1 (m): a rate is not decimal text' in out + err


def test_a_large_price_file(place):
    """A whole catalogue with its notes is larger than any configuration."""
    price = {"names": ["openai/gpt-new"], "input": "3", "output": "9", "note": "x" * 5_000_000}
    (place / "prices.json").write_text(json.dumps({"version": "1", "prices": [price]}))
    (place / "ringmain.yaml").write_text("price_file: prices.json\n" + CONFIG)
    assert "3 in, 9 out USD per million tokens" in run("check", "-c", "ringmain.yaml", cwd=place)[0]


# ---- what was recorded

RATES = {"a/m-a": {"input": "5", "output": "30"}, "b/m-b": {"input": "1", "output": "2"}}


def test_measured_and_repriced(world):
    """A hangs once, fails once at once, and answers twice; B stands in. Prices go up tenfold afterwards."""
    well = good("openai", model="m-a", usage=(12, 4))

    def first(req):
        if req.n == 1:
            return Reply(end="hang")
        return Reply(http(503, error_json("openai", 503))) if req.n == 2 else well(req)
    g, _ = world.chain(first, good("openai", usage=(12, 4)), config={"prices": RATES}, route={"ttft_budget_ms": 150, "retries": 0})
    rows = [g.row(g.chat()) for _ in range(4)]
    assert [r["provider"] for r in rows] == ["b", "b", "a", "a"]
    assert rows[1]["cost_nusd"] == 20_000 and rows[2]["cost_nusd"] == 180_000  # 12 x 1 + 4 x 2, 12 x 5 + 4 x 30
    hung = rows[0]["attempts"][0]
    assert hung["tokens_from"] == "estimated" and hung["cost_nusd"] == 5000 * hung["tokens"]["input"] == rows[0]["waste_nusd"]
    # measured rates
    r = json.loads(run("price", "--from-ledger", "1h", "--json", cwd=g.dir)[0])
    a, b = r["links"]
    assert (a["rates"], a["attempts"], a["fail_ppm"], a["hang_ppm"]) == ("measured", 4, 500_000, 500_000)
    assert (b["rates"], b["attempts"], b["fail_ppm"]) == ("measured", 2, 0)
    assert a["wait_us"] >= 140_000 and r["added_wait_us"] == (a["wait_us"] + 2) // 4
    assert r["call"] == {"input": 12, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 4, "reasoning": 0, "measured_answers": 4}
    assert r["waste_ppm"] == 0  # it had generated nothing
    # half of 1,000 calls at A, half at B, a quarter hang at A for their input
    assert bills(r)["sequential"]["bill_nusd"] == 500 * 180_000 + 500 * 20_000 + 250 * 60_000
    text, _ = run("price", "--from-ledger", "1h", cwd=g.dir)
    assert "4 attempts" in text and "mean of 4 answers" in text
    _, err = run("price", "--from-ledger", "soon", cwd=g.dir, code=2)
    assert "--from-ledger is 'soon'" in err
    # history under other prices, beside the gateway that writes the file
    total = sum(r["cost_nusd"] for r in rows)
    config = dict(g.config, prices={k: {m: v + "0" for m, v in p.items()} for k, p in RATES.items()})
    g.write(config)
    dry = json.loads(run("ledger", "reprice", "--json", cwd=g.dir)[0])
    assert (dry["attempts"], dry["changed"], dry["was_nusd"], dry["now_nusd"], dry["written"]) == (5, 5, total, 10 * total, 0)
    text, _ = run("ledger", "reprice", cwd=g.dir)
    assert "nothing was written" in text and "b/m-b  config -> config  2 attempts, 2 change" in text
    assert json.loads(run("ledger", "sum", "--json", cwd=g.dir)[0])["cost_nusd"] == total
    text, _ = run("ledger", "reprice", "--write", cwd=g.dir)
    assert "5 attempts written" in text
    after = g.row(rows[0]["id"])
    assert after["cost_nusd"] == 10 * rows[0]["cost_nusd"] and after["waste_nusd"] == 10 * rows[0]["waste_nusd"]
    assert [x["tokens"] for x in after["attempts"]] == [x["tokens"] for x in rows[0]["attempts"]]
    assert json.loads(run("ledger", "reprice", "--write", "--json", cwd=g.dir)[0])["changed"] == 0
    with sqlite3.connect(g.dir / "ringmain.db") as db:
        assert db.execute("SELECT count(*), sum(cost_nusd) FROM repriced").fetchone() == (5, total)
    assert g.chat().status == 200  # and it goes on writing


@pytest.mark.parametrize("args, code, says", [
    (["--db", "none.db"], 1, "none.db: no such ledger"),
    (["--since", "yesterday"], 2, "--since takes"),
    (["--prices", "none.json"], 1, "none.json"),
    (["more"], 2, "usage:"),
    (["--bogus"], 2, "usage:"),
])
def test_bad_repricing(world, args, code, says):
    g, _ = world.chain(good("openai"), config={"prices": RATES})
    g.row(g.chat())
    _, err = run("ledger", "reprice", *args, cwd=g.dir, code=code)
    assert says in err


# ---- how each provider counts: tokens as we keep them (input, read, written 5m, 1h, output, reasoning), and micro-dollars

COUNTED = {
    "openai": ("openai", {"prompt_tokens": 20000, "completion_tokens": 900, "total_tokens": 20900, "prompt_tokens_details": {"cached_tokens": 16000},
                          "completion_tokens_details": {"reasoning_tokens": 500}}, (4000, 16000, 0, 0, 900, 500), 12000 + 4800 + 13500),
    "openai writes": ("openai", {"prompt_tokens": 10000, "completion_tokens": 10, "total_tokens": 10010,
                                 "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 5000}}, (3000, 2000, 5000, 0, 10, 0), 9000 + 600 + 18750 + 150),
    "xai": ("openai", {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 180, "completion_tokens_details": {"reasoning_tokens": 30}},
            (100, 0, 0, 0, 80, 30), 300 + 1200),
    "deepseek": ("openai", {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020, "prompt_cache_hit_tokens": 600, "prompt_cache_miss_tokens": 400},
                 (400, 600, 0, 0, 20, 0), 1200 + 180 + 300),
    "together": ("openai", {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "cached_tokens": 250}, (750, 250, 0, 0, 10, 0), 2250 + 75 + 150),
    "anthropic": ("anthropic", {"input_tokens": 120, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 800, "output_tokens": 50},
                  (120, 9000, 800, 0, 50, 0), 360 + 2700 + 3000 + 750),
    "anthropic 1h": ("anthropic", {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4000, "output_tokens": 5,
                                   "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 3000}},
                     (10, 0, 1000, 3000, 5, 0), 30 + 3750 + 18000 + 75),
}


@pytest.mark.parametrize("case", COUNTED)
def test_each_providers_counting(world, case):
    dialect, usage, tokens, micro = COUNTED[case]
    answer = Reply(http(200, {**whole(dialect, "Hi."), "usage": usage}))
    g, _ = world.chain([answer], dialects=[dialect], route={"upstream_stream": "off"}, config={"prices": {
        "a/m-a": {"input": "3", "output": "15", "cache_read": "0.3", "cache_write_5m": "3.75", "cache_write_1h": "6"}}})
    row = g.row(g.chat(stream=False))
    kept = row["attempts"][0]["tokens"]
    assert tuple(kept[k] for k in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")) == tokens
    assert row["attempts"][0]["tokens_from"] == "reported" and row["cost_nusd"] == 1000 * micro


@pytest.mark.parametrize("dialect, usage", [("openai", {"prompt_tokens": 2 ** 63 - 1, "completion_tokens": 2 ** 63 - 1, "total_tokens": 1}),
                                            ("anthropic", {"input_tokens": 2 ** 62, "output_tokens": 2 ** 62})])
def test_a_report_beyond_reason_is_none(world, dialect, usage):
    """What no model can have counted is estimated, and sums can still be made."""
    g, _ = world.chain(lambda req: Reply(http(200, {**whole(dialect, "Hi."), "usage": usage})), dialects=[dialect], route={"upstream_stream": "off"},
                       config={"prices": {"a/m-a": {"input": "3", "output": "15"}}})
    rows = [g.row(g.chat(stream=False)) for _ in range(3)]
    assert {r["attempts"][0]["tokens_from"] for r in rows} == {"estimated"}
    total = json.loads(run("ledger", "sum", "--since", rows[0]["started"][:10], "--json", cwd=g.dir)[0])
    assert total["cost_nusd"] == sum(r["cost_nusd"] for r in rows) < NUSD and total["tokens_from"]["estimated"]["attempts"] == 3


# ---- an invoice beside the ledger

def test_reconcile(world):
    g, _ = world.chain(good("openai", model="m-a", usage=(12, 4)), config={"prices": {"a/m-a": {"input": "5000", "output": "30000"}}})
    row = [g.row(g.chat()) for _ in range(3)][0]
    day = row["started"][:10]
    assert row["cost_nusd"] == 180_000_000  # 12 x 5,000 + 4 x 30,000 USD a million
    (g.dir / "same.csv").write_text(f"date,model,input_tokens,output_tokens,cost\n{day},m-a,24,8,0.36\n{day},m-a,12,4,0.18\n")
    out, _ = run("ledger", "reconcile", "same.csv", "--provider", "a", cwd=g.dir)
    assert f"{day}  m-a  ours $0.5400  invoice $0.5400  agrees" in out
    (g.dir / "more.csv").write_text(f"date,model,input_tokens,output_tokens,cost\n{day},m-a,36,14,0.60\n{day},m-z,1,1,3\n")
    r = json.loads(run("ledger", "reconcile", "more.csv", "--provider", "a", "--json", cwd=g.dir, code=1)[0])
    a, z = r["rows"]
    assert (a["verdict"], a["difference_nusd"], a["of_tokens_nusd"], a["of_rates_nusd"]) == ("tokens differ", 60_000_000, 60_000_000, 0)
    assert (z["verdict"], z["ours_nusd"], z["invoice_nusd"]) == ("not on the ledger", None, 3 * NUSD)
    text, _ = run("ledger", "reconcile", "more.csv", "--provider", "a", cwd=g.dir, code=1)
    assert "tokens: out +2" in text and "difference +$3.0600" in text
    (g.dir / "export.csv").write_text(f"\ufeffUsage Date,Model,Input Tokens,Output Tokens,Cost (USD)\r\n{day} 00:00:00,m-a,36,12,$0.54\r\nTotal,,36,12,$0.54\r\n")
    out, _ = run("ledger", "reconcile", "export.csv", "--provider", "a", cwd=g.dir)
    assert "invoice $0.5400  agrees" in out and "1 line of the invoice names no day (a total?) and is left out" in out
    assert json.loads(run("ledger", "reconcile", "export.csv", "--provider", "a", "--json", cwd=g.dir)[0])["left_out"] == 1
    (g.dir / "dear.csv").write_text(f"when;sku;in;out;paid\n{day};m-a;36;12;0.60\n")
    columns = [x for c in ("day=when", "model=sku", "input=in", "output=out", "cost=paid") for x in ("--column", c)]
    text, _ = run("ledger", "reconcile", "dear.csv", "--provider", "a", *columns, cwd=g.dir, code=1)
    assert "rates differ: +$0.0600 (tokens +$0.0000, rates +$0.0600)" in text
    for args, code, says in [
        (["dear.csv", "--provider", "a"], 1, "dear.csv: line 1: no column for the day; there are: when, sku, in, out, paid"),
        (["same.csv", "--provider", "nobody"], 1, "no provider 'nobody'"),
        (["none.csv", "--provider", "a"], 1, "none.csv: No such file"),
        (["same.csv"], 2, "usage:"),
        (["same.csv", "--provider", "a", "--column", "money=x"], 2, "--column is 'money=x'"),
        (["same.csv", "--provider", "a", "--tolerance", "lots"], 2, "--tolerance is 'lots'"),
    ]:
        assert says in run("ledger", "reconcile", *args, cwd=g.dir, code=code)[1]
