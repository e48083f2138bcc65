"""Classes of service: the answer's word, else the wish, chooses the rates; what has none is priced as standard and says so."""
import json
import subprocess

import pytest

from harness import BINARY, SLOW, Gateway, Provider, Reply, http, openai_chunk, provider_conf, stream, whole

STANDARD = {"input": 2, "output": "8.00", "reasoning": 9, "request": "0.0001", "cache_read": 0.5,
            "tiers": [{"above": 1000, "input": 4, "output": 16}]}
FLEX = {"service": "flex", "input": 1, "output": 4}
FAST = {"service": "fast", "input": 20, "output": 80}
NUSD = {"standard": 12 * 2000 + 4 * 8000 + 100_000, "flex": 12 * 1000 + 4 * 4000, "fast": 12 * 20_000 + 4 * 80_000}


class Tiers:
    """Answers well in both dialects, and tells the class of service that it is told to tell."""

    def __init__(self, dialect):
        self.dialect, self.tier, self.usage, self.hangs, self.more = dialect, None, (12, 4), False, {}

    def __call__(self, req):
        if self.hangs:
            return Reply(end="hang")
        if self.dialect == "anthropic":
            body = whole("anthropic", "Hello.", usage=self.usage)
            body["usage"].update(service_tier=self.tier, **self.more)
            return Reply(http(200, body))
        told = {} if self.tier is None else {"service_tier": self.tier}
        usage = {"prompt_tokens": self.usage[0], "completion_tokens": self.usage[1], **self.more}
        return stream(openai_chunk({"role": "assistant", "content": ""}, **told), openai_chunk({"content": "Hello."}, **told),
                      openai_chunk({}, "stop", **told), openai_chunk({}, usage=usage, **told), b"data: [DONE]\n\n")


@pytest.fixture(params=["openai", "anthropic"])
def world(request, tmp_path):
    tiers = Tiers(request.param)
    a = Provider(tiers)
    made = []

    def start(**link):
        stream = {"upstream_stream": "off"} if request.param == "anthropic" else {}
        g = Gateway(tmp_path, {"providers": {"a": provider_conf(a.port, request.param)},
                               "prices": {"m-a": [STANDARD, FLEX], "a/m-a": FAST},
                               "routes": [{"model": "r", "chain": [{"provider": "a", "model": "m-a", **link}], **stream}]})
        made.append(g)
        return g
    start.tiers, start.dialect, start.provider = tiers, request.param, a
    yield start
    for g in made:
        g.stop()
    a.close()


def ask(world, g, **more):
    """The attempt of one call in the provider's own dialect."""
    call = g.chat if world.dialect == "openai" else g.messages
    r = call(stream=False, **more)
    assert r.status == 200, r.body
    row = g.row(r)
    assert len(row["attempts"]) == 1 and row["cost_nusd"] == row["attempts"][0]["cost_nusd"]
    return row["attempts"][0]


def test_the_answer_chooses_the_rates(world):
    g = world()
    word = {"openai": "default", "anthropic": "standard"}[world.dialect]
    for tier, service, cost in (("flex", "flex", "flex"), (word, "standard", "standard")):
        world.tiers.tier = tier
        a = ask(world, g)
        assert (a["service"], a["service_from"], a["price_certainty"], a["cost_nusd"]) == (service, "reported", "exact", NUSD[cost]), a
        assert a["tokens_from"] == "reported" and a["decision"] is None


def test_a_class_without_rates_is_priced_as_standard_and_says_so(world):
    g = world()
    world.tiers.tier = "priority"
    a = ask(world, g)
    assert (a["service"], a["service_from"], a["price_certainty"], a["cost_nusd"]) == ("priority", "reported", "standard_rates", NUSD["standard"])
    assert "priority has no rates of its own, priced as standard" in a["decision"]


def test_an_answer_that_says_nothing_leaves_the_wish(world):
    g = world()
    world.tiers.tier = None
    a = ask(world, g)
    assert (a["service"], a["service_from"], a["cost_nusd"]) == (None, None, NUSD["standard"])
    more = {"service_tier": "flex"} if world.dialect == "openai" else {"speed": "fast"}
    wish = "flex" if world.dialect == "openai" else "fast"
    a = ask(world, g, **more)
    assert (a["service"], a["service_from"], a["price_certainty"], a["cost_nusd"]) == (wish, "requested", "exact", NUSD[wish])
    world.tiers.tier = {"openai": "default", "anthropic": "standard"}[world.dialect]
    a = ask(world, g, **more)
    assert (a["service"], a["service_from"], a["cost_nusd"]) == ("standard", "reported", NUSD["standard"])


def test_a_link_may_ask_for_a_class_itself(world):
    g = world(set={"service_tier": "flex"})
    a = ask(world, g)
    assert b'"service_tier":"flex"' in world.provider.requests[-1].body.replace(b" ", b"")
    assert (a["service"], a["service_from"], a["cost_nusd"]) == ("flex", "requested", NUSD["flex"])


@pytest.mark.parametrize("world", ["anthropic"], indirect=True)  # a member of Messages
def test_fast_mode_goes_before_the_tier(world):
    g = world()
    world.tiers.tier, world.tiers.more = "standard", {"speed": "fast"}
    a = ask(world, g)
    assert (a["service"], a["service_from"], a["cost_nusd"]) == ("fast", "reported", NUSD["fast"])


@pytest.mark.parametrize("world", ["openai"], indirect=True)  # reasoning is told by Chat
def test_tiers_reasoning_and_requests_of_the_config_are_charged(world):
    g = world()
    world.tiers.more = {"completion_tokens_details": {"reasoning_tokens": 3}, "prompt_tokens_details": {"cached_tokens": 2}}
    assert ask(world, g)["cost_nusd"] == 10 * 2000 + 2 * 500 + 1 * 8000 + 3 * 9000 + 100_000
    world.tiers.usage, world.tiers.more = (1001, 4), {}
    assert ask(world, g)["cost_nusd"] == 1001 * 4000 + 4 * 16_000 + 100_000
    world.tiers.usage = (1000, 4)
    assert ask(world, g)["cost_nusd"] == 1000 * 2000 + 4 * 8000 + 100_000


def test_prices_by_their_days(tmp_path):
    """The span that holds today is taken, not the first one; where the last one is over the cost is unknown, and check says so."""
    a = Provider(Tiers("openai"))
    spans = [{"input": 1, "output": 1, "valid_until": "2026-08-31"}, {"input": 3, "output": 15, "valid_from": "2026-09-01"}]
    g = Gateway(tmp_path, {"providers": {"a": provider_conf(a.port)}, "prices": {"m-a": spans, "m-b": spans[0]},
                           "routes": [{"model": m, "chain": [{"provider": "a", "model": "m-" + m}]} for m in "ab"]})
    try:
        assert g.row(g.chat("a"))["cost_nusd"] == 12 * 3000 + 4 * 15_000
        row = g.row(g.chat("b"))
        assert row["cost_nusd"] is None and row["attempts"][0]["price_version"] is None
        assert row["attempts"][0]["price_certainty"] is None
    finally:
        g.stop()
        a.close()
    p = subprocess.run([BINARY, "check", "-c", str(g.path)], capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == 0 and "3 in, 15 out USD per million tokens\n" in p.stdout, p.stdout
    assert "price unknown, the last one ended with 2026-08-31" in p.stdout, p.stdout


def test_check_shows_what_a_price_holds(tmp_path):
    prices = [{**STANDARD, "valid_until": "2099-12-31"}, FLEX]
    (tmp_path / "c.yaml").write_text(json.dumps({"providers": {"a": provider_conf(9)}, "prices": {"r": prices},
                                                 "routes": [{"model": "r", "order": ["a"]}]}))
    run = [BINARY, "check", "-c", str(tmp_path / "c.yaml")]
    p = subprocess.run(run, capture_output=True, text=True, timeout=60 * SLOW)
    want = ("2 in, 8 out USD per million tokens, reasoning 9, 0.0001 USD a request; above 1000 tokens 4 in, 16 out; "
            "none is known after 2099-12-31; flex 1 in, 4 out")
    assert want in p.stdout, p.stdout
    p = subprocess.run([*run, "--json"], capture_output=True, text=True, timeout=60 * SLOW)
    price = json.loads(p.stdout)["routes"][0]["links"][0]["price"]
    assert price["cache_read"] == "0.5" and price["request"] == "0.0001" and price["valid_until"] == "2099-12-31"
    assert price["tiers"][0]["above"] == 1000 and price["tiers"][0]["output"] == "16" and price["tiers"][0]["reasoning"] is None
    assert price["services"]["flex"]["output"] == "4" and price["services"]["flex"]["version"] == "config"


def test_reprice_goes_by_the_class(tmp_path):
    """A row keeps its class, so that history can be priced by rates that came later."""
    tiers = Tiers("openai")
    tiers.tier = "flex"
    a = Provider(tiers)
    prices = {"m-a": {"input": 2, "output": 8}}
    g = Gateway(tmp_path, {"providers": {"a": provider_conf(a.port)}, "prices": prices,
                           "routes": [{"model": "r", "chain": [{"provider": "a", "model": "m-a"}]}]})
    try:
        row = g.row(g.chat())
        assert row["cost_nusd"] == 12 * 2000 + 4 * 8000 and row["attempts"][0]["price_certainty"] == "standard_rates"
    finally:
        g.stop()
        a.close()
    g.config["prices"] = {"m-a": [prices["m-a"], FLEX]}
    g.write(g.config)
    p = subprocess.run([BINARY, "ledger", "reprice", "-c", str(g.path), "--write", "--json"], capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == 0 and json.loads(p.stdout)["written"] == 1, p.stdout + p.stderr
    p = subprocess.run([BINARY, "ledger", "show", row["id"], "-c", str(g.path), "--json"], capture_output=True, text=True, timeout=60 * SLOW)
    again = json.loads(p.stdout)
    assert again["cost_nusd"] == NUSD["flex"] and again["attempts"][0]["price_certainty"] == "exact"
    assert again["attempts"][0]["service"] == "flex" and again["attempts"][0]["service_from"] == "reported"
