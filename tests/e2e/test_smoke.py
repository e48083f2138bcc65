"""A short walk over everything with two workers: what runs under ThreadSanitizer."""
import concurrent.futures
import json

from harness import Reply, error_json, events, good, http, provider_conf, stream


def test_many_at_once_over_two_workers(world):
    a = world.provider(lambda req: good("openai", "Hello from A.", "m-a")(req) if req.n % 3 else Reply(http(503, error_json("openai", 503))))
    b = world.provider(good("anthropic", "Hello from B."))
    g = world.gateway({"workers": 2, "providers": {"a": provider_conf(a.port), "b": provider_conf(b.port, "anthropic")},
                       "routes": [{"model": "r", "keepalive_sec": 1, "breaker": "off",
                                   "chain": [{"provider": "a", "model": "m-a"}, {"provider": "b", "model": "m-b"}]}]})
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: (g.chat if i % 2 else g.messages)(stream=bool(i & 2)), range(120)))
    assert all(r.status == 200 for r in answers)
    assert {r.text() for r in answers} == {"Hello from A.", "Hello from B."}
    g.config["routes"][0]["deadline_ms"] = 60000
    g.reload(g.config)
    assert g.chat().status == 200
    rows = [g.row(r) for r in answers[:20]]
    assert all(r["outcome"] == "ok" for r in rows)
    assert b"ringmain_requests_total" in g.admin("/metrics").body


def test_leaving_while_the_config_changes(world):
    g, (a,) = world.chain([stream(*events("openai", ["x"], done=False, finish=None, usage=None), last=False, end="hang")],
                          config={"workers": 2})
    socks = [g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []}) for _ in range(10)]
    for s in socks[:5]:
        assert s.recv(20)
    g.reload(g.config)
    for s in socks:
        s.close()
    from harness import wait_for
    wait_for(lambda: all(r.closed_at for r in a.requests), what="every upstream to be closed")
