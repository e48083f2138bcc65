"""Neighbours of the cases: the same kinds, other members. Each is a small input with one right outcome."""
import json

import pytest

from case_player import chunks_of, stage, tool_calls  # noqa: F401 (stage is a fixture)
from harness import LAST, SSE_HEAD, Reply, anthropic_events, chunk, good, http, openai_chunk, stream, whole

FINE = "fine from B"
CASE = "brk-halfopen"  # lends its request; the providers are ours
PLAIN = b'{"model":"chain-main","stream":true,"messages":[{"role":"user","content":"x"}]}'
WHOLE = PLAIN.replace(b"true", b"false")
ROLE, STOP, DONE = openai_chunk({"role": "assistant", "content": ""}), openai_chunk({}, "stop"), b"data: [DONE]\n\n"


def says(*texts):
    return [openai_chunk({"content": t}) for t in texts]


def raw_sse(text):
    return Reply(SSE_HEAD + chunk(text) + LAST)


def play(stage, a, b=True, **kw):
    return stage.play(CASE, "ab" if b else "a", scripts={"a": a if callable(a) else [a], "b": good("openai", FINE, "delta-chat")}, **kw)


def three(p):
    """The same question by a Chat client that streams, one that waits, and a Messages client of either kind."""
    return [p.chat(PLAIN), p.chat(WHOLE), p.messages(), p.messages(stream=False)]


# ---- SSE

@pytest.mark.parametrize("name,text", [
    ("byte order mark", b"\xef\xbb\xbf" + b"".join([ROLE, *says("hi"), STOP, DONE])),
    ("CR alone", b"".join([ROLE, *says("hi"), STOP, DONE]).replace(b"\n", b"\r")),
    ("event, id and retry lines", b"".join(b"event: message\nid: 7\nretry: 10\n" + e for e in [ROLE, *says("hi"), STOP, DONE])),
    ("unknown fields", b"".join(b"foo: bar\nbaz\n" + e for e in [ROLE, *says("hi"), STOP, DONE])),
    ("empty events between", b"\n\n\n".join([ROLE, *says("hi"), STOP, DONE]) + b"\n\n"),
    ("data lines without text", b"data\n\ndata:\n\ndata: \n\n".join([ROLE, *says("hi"), STOP, DONE])),
    ("two data lines", b"".join([ROLE, says("hi")[0].replace(b', "created"', b',\ndata: "created"'), STOP, DONE])),
    ("spaces around DONE", b"".join([ROLE, *says("hi"), STOP, b"data:  [DONE] \n\n"])),
    ("DONE twice", b"".join([ROLE, *says("hi"), STOP, DONE, DONE])),
    ("text after DONE", b"".join([ROLE, *says("hi"), STOP, DONE, *says("NOT THIS")])),
    ("no finish but DONE", b"".join([ROLE, *says("hi"), DONE])),
])
def test_sse_forms(stage, name, text):
    p = play(stage, raw_sse(text))
    for r in three(p):
        assert r.headers["x-ringmain-provider"] == p.name["a"], name
        if b"text/event-stream" in r.raw_head.lower():
            body = r.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\xef\xbb\xbf", b"")
            assert b"NOT THIS" not in body and body.count(b"[DONE]") + body.count(b"event: message_stop") == 1, (name, body)
            assert b'"hi"' in body and r.is_whole
        else:
            assert r.text() == "hi"


@pytest.mark.parametrize("bad", [b"data: {bad\n\n", b"data: 7\n\n", b"data: []\n\n", b'data: {"choices":7}\n\n', b"data: \xff\xfe\n\n", b"<html>busy</html>\n\n"])
def test_sse_nonsense_before_a_token_fails_over(stage, bad):
    p = play(stage, raw_sse(ROLE + bad))
    for r in three(p):
        assert r.text() == FINE and p.outcomes(r)[0] in ("protocol_error", "stream_error"), bad


# ---- DIA

def call(index, **function):
    t = {"function": function}
    if index is not None:
        t["index"] = index
    if "id" in function:
        t["id"], t["type"] = function.pop("id"), "function"
    return openai_chunk({"tool_calls": [t]})


CALLS_DONE = [openai_chunk({}, "tool_calls"), DONE]


@pytest.mark.parametrize("name,evs", [
    ("one after the other", [call(0, id="c0", name="f", arguments='{"q":'), call(0, arguments="1}"), call(1, id="c1", name="g", arguments='{"q":2}')]),
    ("interleaved", [call(0, id="c0", name="f", arguments=""), call(1, id="c1", name="g", arguments=""), call(0, arguments='{"q":1}'), call(1, arguments='{"q":2}')]),
    ("both in one delta", [openai_chunk({"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": {"name": "f", "arguments": '{"q":1}'}},
                                                        {"index": 1, "id": "c1", "type": "function", "function": {"name": "g", "arguments": '{"q":2}'}}]})]),
])
def test_dia_calls_in_any_order(stage, name, evs):
    p = play(stage, stream(ROLE, *evs, *CALLS_DONE))
    want = [("c0", "f", {"q": 1}), ("c1", "g", {"q": 2})]
    assert [(i, n, json.loads(a)) for _, i, n, a in tool_calls(p.chat(PLAIN))] == want
    got = p.chat(WHOLE).json()["choices"][0]
    assert [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in got["message"]["tool_calls"]] == want and got["finish_reason"] == "tool_calls"
    m = p.messages(stream=False).json()
    assert [(b["id"], b["name"], b["input"]) for b in m["content"] if b["type"] == "tool_use"] == want and m["stop_reason"] == "tool_use"
    blocks, order = {}, []
    for _, data in p.messages().events():
        d = json.loads(data)
        if d["type"] == "content_block_start":
            blocks[d["index"]] = [d["content_block"].get("id"), d["content_block"].get("name"), ""]
            order.append(d["index"])
        elif d["type"] == "content_block_delta":
            assert d["index"] == order[-1], "one block at a time"
            blocks[d["index"]][2] += d["delta"]["partial_json"]
    assert [(i, n, json.loads(a)) for i, n, a in blocks.values()] == want and order == sorted(order)


@pytest.mark.parametrize("finish,chat,messages", [("stop", "stop", "end_turn"), ("length", "length", "max_tokens"), ("content_filter", "content_filter", "refusal")])
def test_dia_finishes(stage, finish, chat, messages):
    p = play(stage, stream(ROLE, *says("hi"), openai_chunk({}, finish), DONE))
    assert p.chat(WHOLE).json()["choices"][0]["finish_reason"] == chat
    assert [c["choices"][0]["finish_reason"] for c in chunks_of(p.chat(PLAIN)) if c["choices"]][-1] == chat
    assert p.messages(stream=False).json()["stop_reason"] == messages


@pytest.mark.parametrize("stop,chat", [("end_turn", "stop"), ("max_tokens", "length"), ("stop_sequence", "stop"), ("refusal", "content_filter"), ("pause_turn", "stop"),
                                       ("model_context_window_exceeded", "length")])
def test_dia_stops(stage, stop, chat):
    p = play(stage, stream(*anthropic_events(["hi"], stop=stop)), dialects={"a": "anthropic"})
    assert p.chat(WHOLE).json()["choices"][0]["finish_reason"] == chat
    assert [c["choices"][0]["finish_reason"] for c in chunks_of(p.chat(PLAIN)) if c["choices"]][-1] == chat
    assert p.messages(stream=False).json()["stop_reason"] == stop


# ---- ERR

@pytest.mark.parametrize("status,body,word", [
    (500, b"", "server_error"), (500, b'{"error":"plain words"}', "server_error"), (500, b'{"detail":"plain words"}', "server_error"), (500, b"not json", "server_error"),
    (503, b'{"message":"x","type":"y"}', "overloaded"), (520, b"<html>cf</html>", "server_error"), (529, b"{}", "overloaded"), (408, b"{}", "server_error"),
    (429, b"", "rate_limited"), (429, b'{"error":{"message":"x","code":"insufficient_quota"}}', "quota_exhausted"), (200, b"", "stream_error"),
    (200, b"null", "protocol_error"), (200, b"{}", "protocol_error"), (200, b'{"choices":[]}', "protocol_error"), (204, b"", "stream_error"), (304, b"", "protocol_error"),
    (307, b"", "protocol_error")])
def test_err_forms_fail_over(stage, status, body, word):
    answer = Reply(http(status, body)) if status not in (204, 304) else Reply(b"HTTP/1.1 %d X\r\n\r\n" % status)
    p = play(stage, answer)
    for r in three(p):
        assert r.text() == FINE and p.outcomes(r) == [word, "ok"], body


@pytest.mark.parametrize("header,value,ms", [("Retry-After", "3", 3000), ("Retry-After", "0.5", 500), ("Retry-After-Ms", "250", 250), ("Retry-After", "0", 100), ("Retry-After", "-5", None),
                                             ("Retry-After", "soon", None), ("Retry-After", "99999999999999999999", 3600000)])
def test_err_hints(stage, header, value, ms):
    p = play(stage, Reply(http(429, {"error": {"message": "x", "type": "rate_limit_error"}}, headers=[(header, value)])))
    r = p.chat(PLAIN)
    assert r.text() == FINE and p.row(r)["attempts"][0]["retry_after_ms"] == ms


# ---- HTT

def test_htt_answers_before_the_answer(stage):
    """1xx from a provider is no answer."""
    evs = b"".join(chunk(e) for e in [ROLE, *says("hi"), STOP, DONE])
    p = play(stage, Reply(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + SSE_HEAD + evs + LAST))
    for r in three(p):
        assert r.text() == "hi" and r.status == 200


def test_htt_http10_and_no_length(stage):
    body = json.dumps(whole("openai", "old", "alpha-large")).encode()
    p = play(stage, Reply(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body, end="close"))
    for r in three(p):
        assert r.text() == "old"
    p = play(stage, Reply(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join([ROLE, *says("hi"), STOP, DONE]), end="close"))
    for r in three(p):
        assert r.text() == "hi"


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}   ", b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd",
                                  b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"garbage\r\n\r\n",
                                  b"HTTP/1.1 20 OK\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"])
def test_htt_what_no_provider_may_send(stage, head):
    p = play(stage, Reply(head, end="close"))
    r = p.chat(PLAIN)
    assert r.text() == FINE and p.outcomes(r) == ["protocol_error", "ok"]


def test_pol_surplus_bytes_end_a_connection(stage):
    """Bytes after an answer's end would be the next answer's: such a connection is not used again."""
    body = http(200, whole("openai", "mine", "alpha-large"))
    other = http(200, whole("openai", "SOMEBODY ELSE'S", "alpha-large"))
    p = play(stage, lambda req: Reply(body + other))
    for _ in range(4):
        assert p.chat(WHOLE).text() == "mine"
    assert p.p["a"].connections == 4


# ---- JSN

@pytest.mark.parametrize("body", [b"\xef\xbb\xbf" + WHOLE, WHOLE + b"x", WHOLE + WHOLE, b"[" + WHOLE + b"]", b"null", b'"x"', WHOLE.replace(b'"x"', b'"a\nb"'),
                                  WHOLE.replace(b'"x"', b"'x'"), WHOLE.replace(b'"x"}]', b'"x"}],'), WHOLE.replace(b"false", b"False"), WHOLE.replace(b"false", b"1"),
                                  WHOLE.replace(b"}]}", b'}],"max_tokens":NaN}'), b"// x\n" + WHOLE, WHOLE[:-1]])
def test_jsn_what_is_no_json(stage, body):
    p = play(stage, Reply(http(200, whole("openai", "ok", "alpha-large"))))
    r = p.chat(body)
    assert r.status == 400 and r.json()["error"]["type"] == "invalid_request_error" and not p.p["a"].requests, body


@pytest.mark.parametrize("text", [b'"\\ud83d\\ude8b \\u00e9"', b'"\xf0\x9f\x9a\x8b"', b'"\\/\\b\\f\\n\\r\\t\\"\\\\"', b'"\xe2\x80\xa8"', b'"</script>"'])
def test_jsn_texts_stay(stage, text):
    body = WHOLE.replace(b'"x"', text)
    p = play(stage, good("openai", "ok", "alpha-large"))
    assert p.chat(body).text() == "ok" and b'"content":' + text in p.p["a"].requests[0].body
    q = play(stage, good("anthropic", "ok", "beta-large"), dialects={"a": "anthropic"})
    assert q.chat(body).text() == "ok"
    sent = q.p["a"].requests[0].json["messages"][0]["content"]
    assert (sent if isinstance(sent, str) else "".join(b["text"] for b in sent)) == json.loads(text)


def test_jsn_half_a_pair(stage):
    """A lone surrogate is JSON by its grammar: it stays as it is in the same dialect, and no other can say it."""
    body = WHOLE.replace(b'"x"', b'"a\\ud800z"')
    p = play(stage, good("openai", "ok", "alpha-large"))
    assert p.chat(body).text() == "ok" and b'"a\\ud800z"' in p.p["a"].requests[0].body
    q = play(stage, good("anthropic", "ok", "beta-large"), dialects={"a": "anthropic"})
    r = q.chat(body)
    assert r.text() == FINE and q.outcomes(r) == ["skipped_incapable", "ok"] and not q.p["a"].requests


# ---- USE

@pytest.mark.parametrize("name,usage,want", [
    ("plain", {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, (10, 0, 4)),
    ("cached", {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}, (4, 6, 4)),
    ("hits and misses", {"prompt_tokens": 10, "completion_tokens": 4, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, (4, 6, 4)),
    ("null details", {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": None, "completion_tokens_details": None}, (10, 0, 4)),
])
def test_use_forms(stage, name, usage, want):
    last = ("data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "alpha-large", "choices": [], "usage": usage}) + "\n\n").encode()
    p = play(stage, stream(ROLE, *says("hi"), STOP, last, DONE))
    for r in three(p):
        t = p.row(r)["attempts"][0]
        assert (t["tokens"]["input"], t["tokens"]["cache_read"], t["tokens"]["output"]) == want and t["tokens_from"] == "reported", name


def test_use_in_every_chunk_is_not_added_up(stage):
    evs = [openai_chunk({"content": "a"}, usage={"prompt_tokens": 7, "completion_tokens": n, "total_tokens": 7 + n}) for n in (1, 2, 3)]
    p = play(stage, stream(ROLE, *evs, STOP, DONE))
    for r in three(p):
        t = p.row(r)["attempts"][0]
        assert (t["tokens"]["input"], t["tokens"]["output"]) == (7, 3) and r.text() == "aaa"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1, "completion_tokens": 4}, {"prompt_tokens": "10", "completion_tokens": 4}, {"prompt_tokens": 1e300, "completion_tokens": 4}, [], 7])
def test_use_nonsense_is_estimated(stage, usage):
    """A report that is none makes no price of its own; the answer is whole all the same."""
    last = ("data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "alpha-large", "choices": [], "usage": usage}) + "\n\n").encode()
    p = play(stage, stream(ROLE, *says("hi"), STOP, last, DONE))
    for r in three(p):
        assert r.text() == "hi"
        a = p.row(r)["attempts"][0]
        assert a["outcome"] == "ok" and 0 < a["tokens"]["input"] < 1000 and 0 < a["tokens"]["output"] < 1000 and a["cost_nusd"] < 10**9


# ---- TMO

def test_tmo_pings_keep_nobody_waiting_for_ever(stage):
    """Comments and pings after the first token: the provider lives, so the stream does; without them it ends."""
    p = play(stage, stream(ROLE, *says("hi"), *[b": ping\n\n", 0.1] * 8, *says(" there"), STOP, DONE), route={"idle_timeout_ms": 300})
    r = p.chat(PLAIN)
    assert r.text() == "hi there" and r.is_well_ended()
