"""Prompt caches on a failover (docs/cache.md): hints go to whoever serves, a standby's cache is written only where that pays, a warm
one is kept, conversations keep to one of equal links."""
import pytest

from harness import Gateway, Reply, anthropic_event, anthropic_events, error_json, good, http, stream

PRICES = {"m-a": {"input": "5", "output": "30", "cache_read": "0.5"},
          "m-b": {"input": "2", "output": "10", "cache_read": "0.2", "cache_write_5m": "2.5", "cache_write_1h": "4"}}
TEXT = "A long prefix. " * 400
MARKED = [{"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}]
PLAIN = [{"type": "text", "text": TEXT}]
BREAK_EVEN = "expected reuses, break-even 0.28"


def cached(text="Hello from B.", read=0, write=0):
    """A Messages answer whose usage says what its cache did."""
    def script(req):
        evs = list(anthropic_events([text], model="m-b"))
        usage = {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": read, "cache_creation_input_tokens": write}
        evs[0] = anthropic_event("message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-b", "content": [],
                                 "stop_reason": None, "stop_sequence": None, "usage": usage}})
        return stream(*evs)
    return script


def overloaded():
    return Reply(http(529, error_json("anthropic", 529)))


def failing(world, standby=None, cache=None, **route):
    """A Messages chain whose first link is always overloaded, on one core so that one memory sees everything."""
    return world.chain(lambda req: overloaded(), standby or cached(), dialects=["anthropic", "anthropic"],
                       route={"retries": 0, "breaker": "off", **({"cache": cache} if cache else {}), **route},
                       config={"prices": PRICES, "workers": 1})


def last(g, r):
    return g.row(r)["attempts"][-1]


def test_a_prefix_seen_once_is_not_written(world):
    g, (a, b) = failing(world)
    r = g.messages(system=MARKED)
    assert r.status == 200 and r.headers["x-ringmain-adjusted"] == "cache_control=withheld"
    assert a.requests[-1].json["system"] == MARKED and b.requests[-1].json["system"] == PLAIN
    assert last(g, r)["decision"] == "cache write withheld: 0.0 " + BREAK_EVEN
    r = g.messages(system=TEXT, headers=[("x-cache", "ttl=300")])
    assert a.requests[-1].json["cache_control"] == {"type": "ephemeral"} and "cache_control" not in b.requests[-1].json
    assert r.headers["x-ringmain-adjusted"] == "cache_control=withheld"


def test_what_asks_for_no_cache_is_left_alone(world):
    g, (a, b) = failing(world)
    r = g.messages(system=PLAIN)
    assert b.requests[-1].json["system"] == PLAIN and "x-ringmain-adjusted" not in r.headers and not last(g, r)["decision"]


def test_a_busy_prefix_is_written_then_read(world):
    n = {"served": 0}

    def standby(req):
        n["served"] += 1
        is_marked = b"cache_control" in req.body
        return cached(read=1500 if is_marked and n["warm"] else 0, write=0 if n["warm"] or not is_marked else 1500)(req)
    n["warm"] = False
    g, (a, b) = failing(world, standby)
    for _ in range(30):
        r = g.messages(system=MARKED)
        if "x-ringmain-adjusted" not in r.headers:
            break
    decision = last(g, r)["decision"]
    assert decision.startswith("cache write pays: ") and decision.endswith(BREAK_EVEN), decision
    assert b.requests[-1].json["system"] == MARKED and n["served"] > 1
    n["warm"] = True
    r = g.messages(system=MARKED)
    assert last(g, r)["decision"] == "cache hint sent: 1500 tokens are warm there" and b.requests[-1].json["system"] == MARKED


@pytest.mark.parametrize("standby,is_sent", [("never", False), ("always", True), ("sustained", False)])
def test_the_other_settings(world, standby, is_sent):
    g, (a, b) = failing(world, cached(), {"standby": standby})
    r = g.messages(system=MARKED)
    assert b.requests[-1].json["system"] == (MARKED if is_sent else PLAIN)
    assert last(g, r)["decision"].startswith("cache write" + ("" if is_sent else " withheld")), last(g, r)


def test_sustained_after_no_time_at_all(world):
    g, (a, b) = failing(world, cached(), {"standby": "sustained", "sustained_after_ms": 0})
    g.messages(system=MARKED)
    assert b.requests[-1].json["system"] == MARKED


def test_the_first_link_is_never_withheld(world):
    g, (a,) = world.chain(cached(), dialects=["anthropic"])
    g.messages(system=MARKED)
    assert a.requests[-1].json["system"] == MARKED
    r = g.chat(headers=[("x-cache", "ttl=3600")])
    assert a.requests[-1].json["cache_control"] == {"type": "ephemeral", "ttl": "1h"} and "cache_control=1h" in r.headers["x-ringmain-adjusted"]


def test_a_chat_client_fails_over_to_messages(world):
    g, (a, b) = world.chain(lambda req: Reply(http(503, error_json("openai", 503))), cached(), dialects=["openai", "anthropic"],
                            route={"retries": 0, "breaker": "off"}, config={"prices": PRICES, "workers": 1})
    part = [{"type": "text", "text": TEXT, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    r = g.chat(content=part)
    assert "cache_control" not in b.requests[-1].body.decode() and "cache_control=withheld" in r.headers["x-ringmain-adjusted"]
    assert last(g, r)["decision"].startswith("cache write withheld")


def test_a_target_that_takes_retention(world):
    g, (a,) = world.chain(good("openai", model="m-a"), links={"a": {"supports": {"cache_retention": True}}})
    hint = [("x-cache", "ttl=3600")]
    talk = [{"role": "user", "content": "one"}]
    g.call("/v1/chat/completions", {"model": "r", "messages": talk}, headers=hint)
    first = a.requests[-1].json
    talk += [{"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
    g.call("/v1/chat/completions", {"model": "r", "messages": talk}, headers=hint)
    second = a.requests[-1].json
    assert first["prompt_cache_retention"] == "24h" and first["prompt_cache_key"].startswith("rm-")
    assert second["prompt_cache_key"] == first["prompt_cache_key"]
    g.call("/v1/chat/completions", {"model": "r", "messages": talk, "prompt_cache_key": "mine"}, headers=hint)
    assert a.requests[-1].json["prompt_cache_key"] == "mine"
    g.call("/v1/chat/completions", {"model": "r", "messages": talk})
    assert not {"prompt_cache_key", "prompt_cache_retention"} & set(a.requests[-1].json)


def test_a_conversation_keeps_to_one_of_equals(world):
    ps = [good("openai", f"from {n}", "m") for n in "abc"]
    g, providers = world.chain(*ps, links={n: {"model": "m"} for n in "abc"}, route={"cache": {"affinity": "on"}, "breaker": "off", "retries": 0},
                               config={"workers": 2})
    by_session = {}
    for session in range(24):
        served = {g.chat(headers=[("x-session-id", f"s{session}")], content=f"turn {i}").headers["x-ringmain-provider"] for i in range(3)}
        assert len(served) == 1, (session, served)
        by_session[session] = served.pop()
    assert set(by_session.values()) == {"a", "b", "c"}
    home = by_session[0]
    r = g.chat(headers=[("x-session-id", "s0"), ("x-routing", "order: a, b")])
    assert r.headers["x-ringmain-provider"] == "a"  # what a client orders stands
    providers["abc".index(home)].close()  # health goes first
    r = g.chat(headers=[("x-session-id", "s0")])
    assert r.status == 200 and r.headers["x-ringmain-provider"] != home


@pytest.mark.parametrize("goes_back,served", [("at_once", "a"), ("by_value", "b")])
def test_going_back(world, goes_back, served):
    state = {"down": True}

    def primary(req):
        return overloaded() if state["down"] else cached("Hello from A.")(req)
    g, (a, b) = world.chain(primary, cached(read=0, write=1500), dialects=["anthropic", "anthropic"],
                            route={"retries": 0, "breaker": "off", "cache": {"standby": "always", "return": goes_back}},
                            config={"prices": {**PRICES, "m-a": {**PRICES["m-b"], "input": "5", "output": "30"}}, "workers": 1})
    assert g.messages(system=MARKED).headers["x-ringmain-provider"] == "b"
    state["down"] = False
    r = g.messages(system=MARKED)
    assert r.headers["x-ringmain-provider"] == served
    if served == "b":
        row = g.row(r)
        assert row["attempts"][0]["decision"].startswith("stays: 1500 tokens are warm here, 0 at the first link; saves $"), row
        other = [{"type": "text", "text": "Another prefix. " * 400, "cache_control": {"type": "ephemeral"}}]
        assert g.messages(system=other).headers["x-ringmain-provider"] == "a"  # only what is warm stays


def test_what_is_warm_outlives_a_restart(world):
    """A conversation that comes back after a restart finds its warm standby, whichever core takes it."""
    state = {"down": True}

    def primary(req):
        return overloaded() if state["down"] else cached("Hello from A.")(req)
    g, (a, b) = world.chain(primary, cached(read=0, write=1500), dialects=["anthropic", "anthropic"],
                            route={"retries": 0, "breaker": "off", "cache": {"standby": "always", "return": "by_value"}},
                            config={"prices": {**PRICES, "m-a": {**PRICES["m-b"], "input": "5", "output": "30"}}, "workers": 1})
    assert g.messages(system=MARKED).headers["x-ringmain-provider"] == "b"
    g.stop()
    kept = (g.dir / "ringmain.db.state").read_text()
    assert "\nprefix " in kept and "\nwarm " in kept, kept
    state["down"] = False
    again = Gateway(g.dir, {**{k: v for k, v in g.config.items() if k not in ("listen", "admin")}, "workers": 2}, name="again")
    try:
        r = again.messages(system=MARKED)
        assert r.headers["x-ringmain-provider"] == "b"
        assert again.row(r)["attempts"][0]["decision"].startswith("stays: 1500 tokens are warm here, 0 at the first link; saves $")
    finally:
        again.stop()
