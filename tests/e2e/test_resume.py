"""`resume: on` (docs/failover.md): a stream that breaks off after its first token goes on at the next link, by a prefilled
answer where the link is declared to take one, else by an exact repetition. Never a text that is doubled, never one that is
missing, never another error than the one that broke the answer off."""
import json

import pytest

from harness import LAST, Reply, anthropic_event, error_json, events, good, http, openai_chunk, stream, wait_for

TEXT = "The lamps stay lit because the ring has two ways round and nobody waits."
WORDS = [w if i == 0 else " " + w for i, w in enumerate(TEXT.split(" "))]
RESUME = {"resume": "on", "idle_timeout_ms": 300}
DIALECTS = ["openai", "anthropic"]


def broken(dialect, n, how="fin", words=WORDS):
    """n words, then it breaks off."""
    evs = events(dialect, words[:n], model="m-a", usage=None if dialect == "openai" else (12, 4))
    keep = evs[:1 + n] if dialect == "openai" else evs[:2 + n]
    if how == "error":
        keep.append(b"data: " + json.dumps(error_json("openai", 503)).encode() + b"\n\n" if dialect == "openai"
                    else anthropic_event("error", {"error": {"type": "overloaded_error", "message": "busy"}}))
    if how == "malformed":
        keep.append(b"data: {no json\n\n")
    return [stream(*keep, end={"rst": "rst", "stall": "hang"}.get(how, "close"), last=how in ("end", "error", "malformed"))]


def last_message(req):
    return req.json["messages"][-1]


def continues(dialect, sent=None, text=TEXT, model="m-b"):
    """A model that takes a prefill: it goes on after it. Without one it says the whole text."""
    def script(req):
        last = last_message(req)
        begun = last["content"] if last["role"] == "assistant" else ""
        if sent is not None:
            sent.append(begun)
        assert text.startswith(begun), begun
        rest = text[len(begun):]
        return stream(*events(dialect, [rest[i:i + 5] for i in range(0, len(rest), 5)], model=model))
    return script


def refuses_prefill(dialect, then):
    def script(req):
        if last_message(req)["role"] == "assistant":
            return Reply(http(400, error_json(dialect, 400, "invalid_request_error", "This model does not support assistant message prefill.")))
        return then(req) if callable(then) else then
    return script


def ask(g, client):
    return g.chat() if client == "openai" else g.messages()


def check_whole(r, client, text=TEXT):
    """One answer as its dialect demands: one beginning, one end, and every event of one message."""
    assert r.status == 200 and r.is_well_ended() and r.text() == text
    if client == "openai":
        chunks = [json.loads(d) for _, d in r.events()[:-1]]
        assert len({c["id"] for c in chunks}) == 1 and len({c["model"] for c in chunks}) == 1
        finishes = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
        assert finishes.count("stop") == 1 and finishes[-1] == "stop"
        assert sum("role" in c["choices"][0]["delta"] for c in chunks if c["choices"]) == 1
        return
    kinds = [name for name, _ in r.events()]
    assert kinds[0] == "message_start" and kinds.count("message_start") == 1 and kinds[-2:] == ["message_delta", "message_stop"]
    open_block, seen = None, 0
    for name, data in r.events():
        d = json.loads(data)
        if name == "content_block_start":
            assert open_block is None and d["index"] == seen
            open_block = d["index"]
        elif name == "content_block_delta":
            assert d["index"] == open_block
        elif name == "content_block_stop":
            assert d["index"] == open_block
            open_block, seen = None, seen + 1
    assert open_block is None


@pytest.mark.parametrize("how", ["prefill", "restart"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("first", DIALECTS)
@pytest.mark.parametrize("second", DIALECTS)
def test_an_answer_goes_on(world, how, client, first, second):
    sent = []
    g, (a, b) = world.chain(broken(first, 7), continues(second, sent), dialects=[first, second], route=RESUME,
                            links={"b": {"supports": {"prefill": how == "prefill"}}})
    r = ask(g, client)
    check_whole(r, client)
    assert sent == (["".join(WORDS[:7])] if how == "prefill" else [""])
    row = g.row(r)
    one, two = row["attempts"]
    assert [one["outcome"], two["outcome"], row["outcome"], row["served_link"]] == ["stream_error", "ok", "ok", 1]
    assert one["waste_nusd"] in (0, None) and two["waste_nusd"] in (0, None)
    assert one["in_stream"] and one["decision"].startswith("next link")
    assert two["decision"] == ("went on with the answer" if how == "prefill" else "repeated the answer and went on")
    assert r.headers["x-ringmain-provider"] == "a" and row["provider"] == "b"


@pytest.mark.parametrize("n", range(1, len(WORDS) + 1))
@pytest.mark.parametrize("prefill", [True, False])
def test_wherever_it_breaks_off(world, n, prefill):
    g, _ = world.chain(broken("openai", n), continues("openai"), route=RESUME, links={"b": {"supports": {"prefill": prefill}}})
    check_whole(g.chat(), "openai")


@pytest.mark.parametrize("how,word", [("fin", "stream_error"), ("rst", "stream_error"), ("end", "stream_error"), ("stall", "idle_timeout"),
                                      ("error", "server_error"), ("malformed", "protocol_error")])
def test_however_it_breaks_off(world, how, word):
    g, _ = world.chain(broken("openai", 5, how), good("openai", TEXT), route=RESUME)
    r = g.chat()
    check_whole(r, "openai")
    assert [x["outcome"] for x in g.row(r)["attempts"]] == [word, "ok"]


def test_it_goes_on_more_than_once(world):
    sent = []
    def second(req):
        sent.append(last_message(req)["content"])
        return stream(*events("openai", WORDS[5:9], model="m-b", finish=None, usage=None, done=False), end="close", last=False)
    g, _ = world.chain(broken("openai", 5), second, continues("anthropic", sent), dialects=["openai", "openai", "anthropic"], route=RESUME,
                       links={n: {"supports": {"prefill": True}} for n in "bc"})
    r = g.chat()
    check_whole(r, "openai")
    assert sent == ["".join(WORDS[:5]), "".join(WORDS[:9])]
    row = g.row(r)
    assert [a["outcome"] for a in row["attempts"]] == ["stream_error", "stream_error", "ok"]


def test_who_cannot_go_on_is_passed_over(world):
    down = [Reply(http(503, error_json("openai", 503)))]
    g, _ = world.chain(broken("openai", 5), down, good("openai", "Another text altogether, from its first word on."), good("anthropic", TEXT),
                       dialects=["openai", "openai", "openai", "anthropic"], route=RESUME)
    r = g.chat()
    check_whole(r, "openai")
    row = g.row(r)
    assert [a["outcome"] for a in row["attempts"]] == ["stream_error", "overloaded", "incompatible", "ok"]


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("second", ["parts", "refuses", "short", "down", "hangs", "empty"])
def test_if_nobody_can_go_on_the_first_failure_is_told(world, client, second):
    scripts = {"parts": good("openai", "The lamps stay dark."), "refuses": refuses_prefill("openai", Reply(http(400, error_json("openai", 400, "invalid_request_error", "no")))),
               "short": good("openai", " ".join(TEXT.split(" ")[:3])), "down": [Reply(http(429, error_json("openai", 429), headers=[("Retry-After", "9")]))],
               "hangs": [Reply(end="hang")], "empty": [stream(b"data: [DONE]\n\n")]}
    g, _ = world.chain(broken("openai", 5), scripts[second], route={**RESUME, "deadline_ms": 700, "retries": 0}, links={"b": {"supports": {"prefill": second == "refuses"}}})
    r = ask(g, client)
    assert r.status == 200 and not r.is_well_ended()
    e = r.stream_error()
    assert e and "prefill" not in json.dumps(e) and "429" not in json.dumps(e)
    told = "".join(json.loads(d)["choices"][0]["delta"].get("content") or "" for _, d in r.events()[:-1]) if client == "openai" else r.text()
    assert told == "".join(WORDS[:5])
    assert b'"stop"' not in r.body and b"end_turn" not in r.body
    row = g.row(r)
    assert row["outcome"] == "stream_error" and row["attempts"][0]["outcome"] == "stream_error"


def test_a_refused_prefill_is_asked_again_without_it(world):
    g, (a, b) = world.chain(broken("openai", 5), refuses_prefill("anthropic", good("anthropic", TEXT)), dialects=["openai", "anthropic"],
                            route=RESUME, links={"b": {"supports": {"prefill": True}}})
    r = g.chat()
    check_whole(r, "openai")
    assert [last_message(q)["role"] for q in b.requests] == ["assistant", "user"]
    row = g.row(r)
    assert [(a["outcome"], a["link"]) for a in row["attempts"]] == [("stream_error", 0), ("client_error", 1), ("ok", 1)] or \
           [(a["outcome"], a["link"]) for a in row["attempts"]] == [("stream_error", 0), ("incompatible", 1), ("ok", 1)]


@pytest.mark.parametrize("n", [3, 8])
def test_a_model_that_repeats_a_prefill_is_seen(world, n):
    """Declared to take a prefill, and ignores it."""
    g, _ = world.chain(broken("openai", n), good("openai", TEXT), route=RESUME, links={"b": {"supports": {"prefill": True}}})
    r = g.chat()
    if len("".join(WORDS[:n])) >= 24:
        check_whole(r, "openai")
    else:
        assert r.is_well_ended()  # so short a text may be repeated by chance: what is declared is believed


def test_blanks_at_the_end_are_not_sent_and_not_doubled(world):
    words = ["The lamps stay lit ", "because the ring ", "has two ways round."]
    sent = []
    def second(req):
        sent.append(last_message(req)["content"])
        return stream(*events("anthropic", [" ", "has two", " ways round."], model="m-b"))
    g, _ = world.chain(broken("openai", 2, words=words), second, dialects=["openai", "anthropic"], route=RESUME, links={"b": {"supports": {"prefill": True}}})
    check_whole(g.chat(), "openai", "".join(words))
    assert sent == ["The lamps stay lit because the ring"]


TOOL = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({"content": "Let me see."}),
        openai_chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":"}}]})]
THOUGHT = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({"reasoning_content": "hm"}), openai_chunk({"content": "So"})]
FINISHED = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({"content": "So"}), openai_chunk({}, "stop")]


@pytest.mark.parametrize("evs", [TOOL, THOUGHT])
def test_only_plain_text_is_gone_on_with(world, evs):
    g, (a, b) = world.chain([stream(*evs, end="close", last=False)], good("openai", TEXT), route=RESUME)
    r = g.chat()
    assert r.stream_error() and not r.is_well_ended() and not b.requests


def test_off_is_off(world):
    g, (a, b) = world.chain(broken("openai", 5), good("openai", TEXT))
    r = g.chat()
    assert r.stream_error() and not b.requests and g.row(r)["attempts"][0]["outcome"] == "stream_error"


def test_a_client_that_waits_needs_none(world):
    g, (a, b) = world.chain(broken("openai", 5), good("openai", TEXT), route=RESUME)
    r = g.chat(stream=False)
    assert r.status == 200 and r.text() == TEXT
    row = g.row(r)
    assert [x["outcome"] for x in row["attempts"]] == ["stream_error", "ok"] and not row["attempts"][1]["decision"]


def test_a_client_that_leaves_meanwhile(world):
    g, (a, b) = world.chain(broken("openai", 5), [Reply(end="hang")], route=RESUME)
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    wait_for(lambda: len(b.requests) == 1, what="the attempt that is to go on")
    s.close()
    wait_for(lambda: b.requests[0].closed_at, what="it to be cancelled")
    rid = wait_for(lambda: [x for x in g.access()], what="the record")[0]["id"]
    assert [x["outcome"] for x in g.row(rid)["attempts"]] == ["stream_error", "client_cancelled"]


def test_the_request_and_its_usage_are_kept(world):
    """The whole prompt goes to whoever goes on, long after the first token."""
    prompt = "x" * 200_000
    g, (a, b) = world.chain(broken("openai", 6), continues("openai"), route=RESUME, links={"b": {"supports": {"prefill": True}}})
    r = g.chat(content=prompt, stream_options={"include_usage": True})
    assert r.text() == TEXT and b.requests[0].json["messages"][0]["content"] == prompt
    assert json.loads(r.events()[-2][1])["usage"]["completion_tokens"] == 4


def test_text_over_the_gate_is_not_kept(world):
    g, (a, b) = world.chain([stream(*events("openai", ["y" * 3000, "z"], usage=None)[:3], end="close", last=False)], good("openai", TEXT), route=RESUME,
                            config={"limits": {"gate_bytes": 1024}})
    r = g.chat()
    assert r.stream_error() and not b.requests
