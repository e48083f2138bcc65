"""Cases of the kinds DIA, JSN, PCA and SSE: what is said survives the way, byte for byte where both ends speak the same.
What must happen stands in cases/<id>/expect.md."""
import contextlib
import json
import re
import subprocess
import sys
import time

import pytest

from case_player import ALIAS, HERE, chunks_of, client_keys, reply, request, script, stage, tool_calls, up  # noqa: F401 (stage is a fixture)
from harness import LAST, SLOW, SSE_HEAD, Reply, chunk, good, http, openai_chunk, provider_conf, read_response, stream, wait_for

FINE = "fine from B"
TEXT = "naïve — 東京 🚋 ok"
PLAIN = b'{"model":"chain-main","stream":true,"messages":[{"role":"user","content":"Say something short."}]}'


def names(r):
    return [n for n, _ in r.events()]


def lifecycle(r):
    """A Messages stream's event names, repeated deltas as one, pings left out."""
    out = []
    for n in names(r):
        if n != "ping" and not (n == "content_block_delta" and out[-1:] == [n]):
            out.append(n)
    return out


def blocks(r):
    """A Messages stream's content blocks as a client adds them up."""
    out = {}
    for _, data in r.events():
        d = json.loads(data)
        if d["type"] == "content_block_start":
            out[d["index"]] = dict(d["content_block"], json="")
        elif d["type"] == "content_block_delta":
            delta = d["delta"]
            if delta["type"] == "text_delta":
                out[d["index"]]["text"] += delta["text"]
            elif delta["type"] == "input_json_delta":
                out[d["index"]]["json"] += delta["partial_json"]
    return [out[i] for i in sorted(out)]


def stop_reason(r):
    return next(json.loads(d)["delta"]["stop_reason"] for n, d in r.events() if n == "message_delta")


def usage_tokens(p, r):
    t = p.row(r)["attempts"][-1]["tokens"]
    return t["input"], t["output"]


# ---- DIA

def test_dia_argsnull(stage):
    p = stage.play("dia-argsnull")
    r = p.send()
    b = blocks(r)
    assert [x["type"] for x in b] == ["text", "tool_use"] and b[0]["text"] == "hi"
    assert b[1]["name"] == "f" and b[1]["id"] == "call_1" and json.loads(b[1]["json"]) == {"a": 1} and stop_reason(r) == "tool_use"
    for _, data in r.events():
        for delta in [json.loads(data).get("delta") or {}]:
            assert all(v is not None for k, v in delta.items() if k != "stop_sequence"), data


def test_dia_argsnull_whole(stage):
    p = stage.play("dia-argsnull")
    r = p.messages(stream=False)
    text, tool = r.json()["content"]
    assert text["text"] == "hi" and tool["input"] == {"a": 1} and tool["name"] == "f" and r.json()["stop_reason"] == "tool_use"


def test_dia_ctmismatch(stage):
    p = stage.play("dia-ctmismatch")
    for n in (1, 2):
        r = p.send(n)
        assert r.headers["content-type"].startswith("application/json") and r.json()["object"] == "chat.completion" and r.text() == TEXT
        assert r.json()["usage"]["total_tokens"] == 20
    r = p.send(3)
    assert r.headers["content-type"].startswith("text/event-stream") and r.text() == "json answer" and r.events()[-1][1] == "[DONE]"
    assert all(c["object"] == "chat.completion.chunk" for c in chunks_of(r)) and usage_tokens(p, r) == (3, 2)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("is_stream", [True, False])
def test_dia_ctmismatch_messages(stage, n, is_stream):
    p = stage.play("dia-ctmismatch", scripts={"a": script("dia-ctmismatch", "a", [n])})
    r = p.messages(stream=is_stream)
    assert r.text() == ("json answer" if n == 3 else TEXT)
    assert r.headers["content-type"].startswith("text/event-stream" if is_stream else "application/json")
    assert not is_stream or lifecycle(r) == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]


def test_dia_emptyid(stage):
    p = stage.play("dia-emptyid")
    r = p.send()
    assert tool_calls(r) == [(0, "call_t9", "calc", '{"e":"2+2"}')] and r.is_well_ended()
    assert r.body.count(b"call_t9") == 1
    m = p.messages()
    (tool,) = [b for b in blocks(m) if b["type"] == "tool_use"]
    assert (tool["id"], tool["name"], json.loads(tool["json"])) == ("call_t9", "calc", {"e": "2+2"}) and stop_reason(m) == "tool_use"
    w = p.chat(PLAIN.replace(b"true", b"false"))
    (call,) = w.json()["choices"][0]["message"]["tool_calls"]
    assert call["id"] == "call_t9" and call["type"] == "function" and call["function"] == {"name": "calc", "arguments": '{"e":"2+2"}'}


def test_dia_fakestop_in_chat(stage):
    """The case speaks Responses, which comes later; a Chat target's three ends are the same three."""
    def ending(*evs):
        return [stream(openai_chunk({"role": "assistant", "content": ""}), *evs, end="close")]
    err = b'data: {"error":{"code":"server_error","message":"x"}}\n\n'
    p = stage.play("brk-halfopen", scripts={"a": ending(openai_chunk({"content": "part"}), openai_chunk({}, "length"), b"data: [DONE]\n\n")})
    r = p.send()
    assert r.text() == "part" and [c["choices"][0]["finish_reason"] for c in chunks_of(r) if c["choices"]][-1] == "length"
    assert stop_reason(p.messages()) == "max_tokens"
    p = stage.play("brk-halfopen", scripts={"a": ending(err)})
    assert p.send().text() == FINE
    p = stage.play("brk-halfopen", scripts={"a": ending(openai_chunk({"content": "part"}), err)})
    for r in (p.send(), p.messages()):
        assert r.text() == "part" and r.stream_error() and not r.is_well_ended()
        assert b'finish_reason":"' not in r.body and b'stop_reason":"' not in r.body


def test_dia_firsttool(stage):
    p = stage.play("dia-firsttool")
    r = p.send(1)
    assert lifecycle(r) == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]
    (tool,) = blocks(r)
    assert tool["type"] == "tool_use" and tool["id"] and tool["name"] and isinstance(json.loads(tool["json"] or "{}"), dict) and stop_reason(r) == "tool_use"
    r = p.send(2)
    assert lifecycle(r) == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]
    assert json.loads(r.events()[0][1])["message"]["role"] == "assistant" and r.text() and stop_reason(r) == "end_turn"


def test_dia_gemsafety_in_chat(stage):
    """The case's target is Gemini, which comes later; a Chat target's content_filter must be one attempt and an answer too."""
    evs = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({}, "content_filter"), b"data: [DONE]\n\n"]
    p = stage.play("brk-halfopen", scripts={"a": [stream(*evs, end="close")]})
    r = p.send()
    assert [c["choices"][0]["finish_reason"] for c in chunks_of(r)][-1] == "content_filter" and r.is_well_ended() and len(p.row(r)["attempts"]) == 1
    m = p.messages()
    assert stop_reason(m) == "refusal" and not p.p["b"].requests


def test_dia_zeroarg(stage):
    p = stage.play("dia-zeroarg")
    r = p.send(1)
    assert [(i, a, n, json.loads(args)) for i, a, n, args in tool_calls(r)] == [(0, "toolu_t1", "snap", {}), (1, "toolu_t2", "snap", {})]
    assert r.text() == "ok " and r.is_well_ended() and {c["choices"][0]["finish_reason"] for c in chunks_of(r) if c["choices"]} == {None, "tool_calls"}
    assert p.send(2).text() == "Hello"
    (use,) = [b for m in p.p["a"].requests[1].json["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"]
    assert use["input"] == {} and use["id"] == "toolu_t1"


def test_dia_zeroarg_whole(stage):
    p = stage.play("dia-zeroarg")
    r = p.chat(PLAIN.replace(b"true", b"false"))
    assert [(c["id"], c["function"]["arguments"]) for c in r.json()["choices"][0]["message"]["tool_calls"]] == [("toolu_t1", "{}"), ("toolu_t2", "{}")]


# ---- JSN

def test_jsn_bigint(stage):
    p = stage.play("jsn-bigint")
    r = p.send()
    sent = p.p["a"].requests[0].body
    for text in (b'"seed":9007199254740993,', b'"temperature":1.10,', b'"top_p":1E0,', b'"maximum":12345678901234567890123456}', b"id 2512292042121000001"):
        assert text in sent, text
    assert r.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"id":9223372036854775807123}'
    for is_stream in (False, True):
        m = p.messages(stream=is_stream)
        assert b"9223372036854775807123" in m.body
    assert b'"input":{"id":9223372036854775807123}' in p.messages(stream=False).body.replace(b" ", b"")


def test_jsn_bigint_messages_target(stage):
    use = {"id": "msg_1", "type": "message", "role": "assistant", "model": "beta-large", "stop_reason": "tool_use", "stop_sequence": None,
           "usage": {"input_tokens": 1, "output_tokens": 1}, "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"id": 9223372036854775807123}}]}
    p = stage.play("jsn-bigint", scripts={"a": [Reply(http(200, use))]}, dialects={"a": "anthropic"})
    r = p.send()
    assert json.loads(r.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {"id": 9223372036854775807123}
    sent = p.p["a"].requests[0].body
    assert b'"maximum":12345678901234567890123456}' in sent and b'"top_p":1E0' in sent and b"id 2512292042121000001" in sent
    assert p.p["a"].requests[0].json["temperature"] == 1  # 1.10 is beyond what Messages takes
    p.chat(b'{"model":"chain-main","temperature":0.10,"messages":[{"role":"user","content":"x"}]}')
    assert b'"temperature":0.10' in p.p["a"].requests[-1].body
    history = b'{"model":"chain-main","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f",' \
              b'"arguments":"{\\"id\\":9223372036854775807123,\\"e\\":1E0}"}}]},{"role":"tool","tool_call_id":"t","content":"y"}]}'
    p.chat(history)
    assert b'"input":{"id":9223372036854775807123,"e":1E0}' in p.p["a"].requests[-1].body


def deep(depth, where):
    return subprocess.run([sys.executable, str(HERE / "jsn-deep/gen.py"), str(depth), where], capture_output=True, check=True).stdout


@pytest.mark.parametrize("where", ["ignored", "params"])
@pytest.mark.parametrize("depth", [10000, 1000000])
def test_jsn_deep_is_refused(stage, depth, where):
    p = stage.play("jsn-deep")
    body = deep(depth, where)
    t = time.monotonic()
    r = p.chat(body)
    took = time.monotonic() - t
    assert r.status == 400 and r.json()["error"]["type"] == "invalid_request_error" and not p.p["a"].requests
    assert took < (0.05 if depth == 10000 else 0.5) * SLOW
    assert p.chat(deep(60, where)).text() == FINE


@pytest.mark.parametrize("where", ["ignored", "delta"])
@pytest.mark.parametrize("depth", [60, 10000, 1000000])
def test_jsn_deep_upstream(stage, depth, where):
    nest = b"[" * depth + b"]" * depth
    event = openai_chunk({"content": "hi"}, model="alpha-large")
    event = event.replace(b'"object"', b'"x": ' + nest + b', "object"') if where == "ignored" else event.replace(b'"content"', b'"x": ' + nest + b', "content"')
    p = stage.play("jsn-deep", scripts={"a": [stream(openai_chunk({"role": "assistant", "content": ""}), event, openai_chunk({}, "stop"), b"data: [DONE]\n\n")]})
    for r in (p.chat(PLAIN), p.messages(), p.chat(PLAIN.replace(b"true", b"false"))):
        if depth == 60:
            assert r.text() == "hi"
        else:
            assert r.status == 502 and p.outcomes(r) == ["protocol_error"]
    assert p.g.proc.poll() is None


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_jsn_dupkeys(stage, n):
    p = stage.play("jsn-dupkeys")
    with contextlib.closing(p.open(p.bytes(n))) as s:
        r = read_response(s)
    assert r.status == 400 and r.json()["error"]["type"] == "invalid_request_error" and not p.p["a"].requests
    assert "x-ringmain-cost-usd" not in r.headers and r.headers.get("x-ringmain-attempts", "0") == "0"


@pytest.mark.parametrize("body", [b'{"model":"chain-main","messages":[],"messages":[{"role":"user","content":"x"}]}', b'{"model":"chain-main","messages":[],"m\\u0061x_tokens":1,"max_tokens":9}',
                                  b'{"model":"chain-main","messages":[],"stream_options":{"include_usage":true},"stream_options":{}}',
                                  b'{"stream":true,"model":"chain-main","messages":[],"\\u0073tream":false}'])
def test_jsn_dupkeys_neighbours(stage, body):
    p = stage.play("jsn-dupkeys")
    assert p.chat(body).status == 400 and not p.p["a"].requests


def test_jsn_nulescape(stage):
    p = stage.play("jsn-nulescape")
    r = p.send()
    assert r.text() == "Hello" and p.p["a"].requests[0].json["messages"][0]["content"] in ("keep\0this", [{"type": "text", "text": "keep\0this"}])
    assert b"\\u0000this" in p.p["a"].requests[0].body


def test_jsn_replace(stage):
    client = request("jsn-replace").partition(b"\r\n\r\n")[2]
    # The route's name is as long as the case's; the texts that only look like a model keep it.
    p = stage.play("jsn-replace", route={"upstream_stream": "off"})
    r = p.send()
    body = client.replace(ALIAS, p.alias)
    assert r.text() == FINE and p.p["a"].requests[0].body == body[:body.rindex(p.alias)] + b"delta-chat" + body[body.rindex(p.alias) + len(p.alias):]
    p = stage.play("jsn-replace")
    p.send()
    sent, was = p.p["a"].requests[0].json, json.loads(client.replace(ALIAS, p.alias))
    assert sent["messages"] == was["messages"] and sent["metadata"] == was["metadata"] and sent["model"] == "delta-chat"
    assert set(sent) - set(was) == {"stream", "stream_options"}


# ---- PCA

def test_pca_cachectl(stage):
    p = stage.play("pca-cachectl")
    r = p.send()
    assert r.text() == FINE
    client = json.loads(request("pca-cachectl").partition(b"\r\n\r\n")[2])
    a = p.p["a"].requests[0]
    assert a.json["system"] == client["system"] and a.json["tools"] == client["tools"] and a.json["messages"] == client["messages"]
    assert a.body.count(b'"cache_control"') == 3 and a.headers["anthropic-beta"] == "extended-cache-ttl-2025-04-11"
    order = [a.body.index(x) for x in (b'"system"', b'"tools"', b'"messages"')]
    assert order == sorted(order)
    b = p.p["b"].requests[0]
    assert b"cache_control" not in b.body and "anthropic-beta" not in b.headers
    assert [m["role"] for m in b.json["messages"]] == ["system", "user"] and b.json["messages"][1]["content"] in ("q", [{"type": "text", "text": "q"}])


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_pca_keyorder(stage, mode):
    p = stage.play("pca-keyorder", route={"upstream_stream": mode})
    p.send(1), p.send(2)
    one, two = (r.body for r in p.p["a"].requests)
    client = request("pca-keyorder", 1, p.alias).partition(b"\r\n\r\n")[2]
    want = client.replace(p.alias, b"alpha-large")
    assert one == two
    if mode == "off":
        assert one == want
    else:
        inserted = b'"stream_options":{"include_usage":true},'
        assert one.replace(inserted, b"", 1) == want.replace(b'"stream":false', b'"stream":true') and one.startswith(b"{" + inserted)


def test_pca_keyorder_messages_target(stage):
    p = stage.play("pca-keyorder", scripts={"a": good("anthropic", "ok", "beta-large")}, dialects={"a": "anthropic"})
    assert p.send(1).text() == "ok" and p.send(2).text() == "ok"
    one, two = (r.body for r in p.p["a"].requests)
    assert one == two and b'"required":["b","a"],"properties":{"b":{"type":"number","default":1e2},"a":' in one


def test_pca_varyprefix(stage):
    """The alarm of three writes without a read belongs to the dashboard, which comes later."""
    p = stage.play("pca-varyprefix")
    assert [p.send(n).text() for n in (1, 2, 3)] == ["ok"] * 3
    q = p.p["a"].requests
    marker = q[0].body.index(b'"cache_control":{"type":"ephemeral"}')
    assert len({r.body[:marker + 36] for r in q}) == 1 and len({r.body for r in q}) == 1
    assert len({r.headers["x-api-key"] for r in q}) == 1 and q[0].headers["x-api-key"].startswith("sk-prov-a")
    row = p.row(p.send(1))
    assert row["attempts"][0]["tokens"]["cache_write_5m"] == 4400


# ---- SSE

def test_sse_comment(stage):
    p = stage.play("sse-comment", route={"ttft_budget_ms": 300})
    r = p.send()
    assert r.text() == FINE and p.outcomes(r) == ["ttft_timeout", "ok"]
    p = stage.play("sse-comment", route={"ttft_budget_ms": 3000})
    for r in (p.send(), p.messages()):
        assert r.text() == TEXT and r.is_well_ended() and not any(d.startswith(":") for _, d in r.events()) and b"data: :" not in r.body


def test_sse_crlf(stage):
    p = stage.play("sse-crlf")
    for r in (p.send(), p.messages()):
        assert usage_tokens(p, r) == (11, 9)
        r.body = r.body.replace(b"\r\n", b"\n")
        assert b"\r" not in r.body and r.text() == TEXT and r.is_well_ended()


def huge(size):
    out = subprocess.run([sys.executable, str(HERE / "sse-hugeevent/gen.py"), str(size)], capture_output=True, check=True).stdout
    return Reply(out, end="close")


@pytest.mark.parametrize("size", [70000, 1100000, 5000000])
def test_sse_hugeevent(stage, size):
    p = stage.play("sse-hugeevent", "a", scripts={"a": [huge(size)]})
    for r in (p.send(), p.messages(), p.chat(PLAIN.replace(b"true", b"false"))):
        assert r.status == 200 and r.text() == "x" * size
        assert r.headers["content-type"].startswith("application/json") or r.is_well_ended()


def test_sse_hugeevent_too_large(stage):
    p = stage.play("sse-hugeevent", "a", scripts={"a": [huge(40000000)]})
    r = p.send()
    assert r.status == 502 and r.json()["error"]["message"] and p.outcomes(r) == ["protocol_error"]
    wait_for(lambda: p.p["a"].open == 0, what="A's connection to be closed")
    assert p.g.proc.poll() is None


def body_of(case, n=1):
    """An answer's SSE text, out of its HTTP chunks."""
    data, out = up(case, f"up-a-{n}.http").partition(b"\r\n\r\n")[2], b""
    while data:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        if size == 0:
            break
        out, data = out + data[:size], data[size + 2:]
    return out


@pytest.mark.parametrize("case", ["sse-linesplit", "sse-utf8split", "sse-crlf", "sse-stripevent"])
def test_sse_every_split(stage, case):
    """Every HTTP chunk boundary, and pieces of one byte, give the same answer as the unsplit text."""
    text = body_of(case)
    turn = {"pieces": [text]}

    def play(req):
        return Reply(SSE_HEAD + b"".join(chunk(x) for x in turn["pieces"] if x) + LAST, end="keep")
    p = stage.play(case, scripts={"a": play})
    whole = p.send()
    assert whole.is_well_ended() or case == "sse-crlf"
    step = 1 if SLOW <= 1 else 7
    with contextlib.closing(p.g.connect()) as s:
        for at in list(range(1, len(text), step)) + [0]:
            turn["pieces"] = [text[:at], text[at:]] if at else [text[i:i + 1] for i in range(len(text))]
            s.sendall(p.bytes())
            assert read_response(s).body == whole.body, at


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_sse_linesplit_in_time(stage, client):
    """The same, but the pieces come apart in time: the file's cuts, every seventh offset, and one byte at a time."""
    raw = up("sse-linesplit", "up-a-1.http")
    head = raw.index(b"\r\n\r\n") + 4
    turn = {"cuts": None}
    p = stage.play("sse-linesplit", scripts={"a": lambda req: reply("sse-linesplit", "a", 1, cuts=turn["cuts"])})
    ask = (lambda: p.send()) if client == "chat" else (lambda: p.messages())
    first = ask()
    assert first.text() == TEXT and first.is_well_ended()
    for cuts in [[(at, 3)] for at in range(head + 1, len(raw), 29)] + [[(at, 0.05) for at in range(1, len(raw))]]:
        turn["cuts"] = cuts
        assert ask().events()[1:] == first.events()[1:]


def test_sse_nodone(stage):
    p = stage.play("sse-nodone")
    ended = {}
    r0 = reply("sse-nodone", "a", 1)

    def parts():
        for part in r0.parts:
            ended["at"] = time.monotonic()  # before it is out: the client may be done before we are asked for more
            yield part
    timed = Reply(end="close")
    timed.parts = parts()
    p.p["a"].script = [timed]
    r = p.send()
    assert time.monotonic() - ended["at"] < 0.2 * SLOW
    assert r.text() == TEXT and r.body.count(b"[DONE]") == 1 and r.is_well_ended() and usage_tokens(p, r) == (11, 9) and p.outcomes(r) == ["ok"]
    p.p["a"].script = script("sse-nodone", "a")
    m = p.messages()
    assert m.text() == TEXT and m.is_well_ended()


@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sse_nofinalblank(stage, n, client):
    p = stage.play("sse-nofinalblank", scripts={"a": script("sse-nofinalblank", "a", [n])})
    r = p.send(n) if client == "chat" else p.messages()
    assert r.text() == TEXT and r.is_whole
    if n < 3:
        assert r.is_well_ended() and usage_tokens(p, r) == (11, 9) and p.outcomes(r) == ["ok"]
        assert b'"finish_reason":"stop"' in r.body if client == "chat" else stop_reason(r) == "end_turn"
    else:
        assert r.stream_error() and not r.is_well_ended() and b"[DONE]" not in r.body and p.outcomes(r) == ["stream_error"]


class Endless:
    """The reply's last HTTP chunk for ever."""

    def __init__(self):
        self.sent = 0

    def __call__(self, req):
        data = up("sse-nonewline", "up-a-1.http")
        head, body = data[:data.index(b"\r\n\r\n") + 4], data[data.index(b"\r\n\r\n") + 4:]

        def parts():
            yield head
            yield body
            again = b"%x\r\n%s\r\n" % (2000, b"y" * 2000) * 16
            while True:
                yield again
                self.sent += len(again)
        r = Reply(end="close")
        r.parts = parts()
        return r


def test_sse_nonewline(stage):
    p = stage.play("sse-nonewline", scripts={"a": Endless()})
    r = p.send()
    assert r.status == 502 and p.outcomes(r) == ["protocol_error"]
    wait_for(lambda: p.p["a"].open == 0, what="A's end")


def test_sse_nonewline_fifty(world):
    a = world.provider(Endless())
    g = world.gateway({"client_keys": client_keys(), "limits": {"event_bytes": 262144}, "providers": {"a": provider_conf(a.port)},
                       "routes": [{"model": "chain-main", "order": ["a"], "retries": 0, "breaker": "off"}]},
                      env={"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=16"})

    def fifty():
        socks = [g.connect() for _ in range(50)]
        for s in socks:
            s.sendall(request("sse-nonewline"))
        for s in socks:
            with contextlib.closing(s):
                assert read_response(s).status == 502
        return g.rss_kb()
    fifty()
    first = fifty()
    assert fifty() < first + 50 * 256 and fifty() < first + 50 * 256, "flat"


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_sse_nospace(stage, client):
    p = stage.play("sse-nospace")
    r = p.send() if client == "chat" else p.messages()
    assert r.text() == " lead" and r.is_well_ended()


def empty_events(body):
    """What a decoder makes of it that dispatches on every blank line once an id was seen: the number of events without data."""
    seen_id, has_data, empty = False, False, 0
    for line in body.split(b"\n"):
        if line.startswith(b"id:"):
            seen_id = True
        elif line.startswith(b"data:"):
            has_data = True
        elif line == b"":
            empty += seen_id and not has_data
            has_data = False
    return empty


def test_sse_ourkeepalive(stage):
    before = [SSE_HEAD, 0.5, *up("sse-ourkeepalive", "up-a-1.http").partition(b"\r\n\r\n")[2:]]
    for own in (reply("sse-ourkeepalive", "a", 1, pace=0.5), Reply(*before, end="close")):
        p = stage.play("sse-ourkeepalive", scripts={"a": [own]}, route={"heartbeat_ms": 150})
        r = p.send()
        assert r.text() == TEXT and r.is_well_ended() and empty_events(r.body + b"\n") == 0 and not re.search(rb"^(id|retry):", r.body, re.M)
        comments = re.findall(rb"^:.*$", r.body, re.M)
        assert set(comments) <= {b": ringmain"}, comments  # one word, always the same
        assert bool(comments) == (own.parts[1] == 0.5), "the heartbeat runs before the first token"


def test_sse_stripevent(stage):
    p = stage.play("sse-stripevent")
    r = p.send()
    assert r.body == body_of("sse-stripevent") and r.is_whole and names(r)[0] == "message_start"
    assert r.headers["request-id"] == "req_t_77" and r.headers["anthropic-ratelimit-requests-remaining"] == "41"
    assert "x-hop" not in r.headers and "keep-alive" not in r.headers and "x-hop" not in r.headers.get("connection", "")


def test_sse_u2028(stage):
    p = stage.play("sse-u2028")
    for r in (p.send(), p.messages(), p.chat(PLAIN.replace(b"true", b"false"))):
        assert r.text() == "a\u2028b\u2029c\u0085d" and p.row(r)["outcome"] == "ok"
    assert "a\u2028b\u2029c\u0085d".encode() in p.send().body


def test_sse_utf8split(stage):
    p = stage.play("sse-utf8split")
    for r in (p.send(), p.messages()):
        assert r.text() == TEXT and b"\xef\xbf\xbd" not in r.body and r.is_well_ended() and usage_tokens(p, r) == (11, 9)
    r = p.send()
    assert r.body.count(b"[DONE]") == 1 and b'"finish_reason":"stop"' in r.body
