"""Recorded streams of real providers, replayed through the gateway and held against a plain reading of the recording: to a
client of the same dialect byte for byte, to one of the other dialect in meaning; streaming and collected."""
import json
import os
import pathlib
import re

import pytest

from conftest import World
from harness import LAST, ROOT, SSE_HEAD, Reply, chunk, http, provider_conf

FOLDER = pathlib.Path(os.environ.get("RINGMAIN_FIXTURES", ROOT.parent / "shared/fixtures"))
NOT_CHAT = ("responses-stream", "gemini", "bedrock", "vertex", "aws-sigv4", "headers", "prices")


def sse_events(raw):
    """[(name, data)] of a stream, by the rules of the event stream format."""
    out, name, data = [], None, []
    for line in [*re.split("\r\n|\n|\r", raw.decode().removeprefix("\ufeff")), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                out.append((name, "\n".join(data)))
            name, data = None, []
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
    return out


def trees(raw):
    return [json.loads(d) for _, d in sse_events(raw) if d.strip() not in ("[DONE]", "")]


def dialect_of(path):
    try:
        first = trees(path.read_bytes())[0]
    except (ValueError, IndexError):
        return None
    if "choices" in first:
        return "openai"
    return "anthropic" if str(first.get("type", "")).startswith(("message_", "content_block", "ping")) else None


def recordings():
    if not FOLDER.is_dir():
        return []
    found = [p for p in sorted(FOLDER.glob("*/*.sse")) if not any(w in str(p.relative_to(FOLDER)) for w in NOT_CHAT)]
    return [(str(p.relative_to(FOLDER)), dialect_of(p)) for p in found if dialect_of(p)]


ALL = recordings()
BROKEN = {"groq/stream-error-tool-use-failed.sse", "openrouter/stream-error-mid-stream.sse", "synthetic/anthropic-stream-overloaded-after-start.sse",
          "synthetic/anthropic-stream-overloaded-mid.sse", "synthetic/openai-stream-error-after-content.sse",
          "synthetic/openai-stream-error-before-content.sse", "synthetic/openai-stream-truncated.sse", "synthetic/vllm-stream-error.sse"}
SPLICED = "anthropic/stream-spliced-message-start.sse"  # its first tool call breaks off: only the second one has a meaning
GOOD = [r for r in ALL if r[0] not in BROKEN]
every_good = pytest.mark.parametrize("name, dialect", GOOD, ids=[n for n, _ in GOOD])
pytestmark = pytest.mark.skipif(not ALL, reason=f"no recordings at {FOLDER}: set RINGMAIN_FIXTURES")


# ---------------------------------------------------------------- a plain reading

class Meaning:
    def __init__(self):
        self.text, self.reasoning, self.tools, self.stop, self.prompt, self.cached, self.written, self.output = "", "", [], None, None, 0, 0, None

    def usage(self):
        return None if self.prompt is None else (self.prompt, self.cached, self.written, self.output)


CHAT_STOPS = {"tool_calls": "tools", "function_call": "tools", "length": "length", "content_filter": "refusal"}
MESSAGES_STOPS = {"tool_use": "tools", "max_tokens": "length", "refusal": "refusal", "stop_sequence": "sequence", "model_context_window_exceeded": "length"}


def arguments_of(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {"_raw": text}


def as_text(content):
    """Content is text or a list of parts: (reasoning, text)."""
    if not isinstance(content, list):
        return "", content or ""
    thought = "".join(t["text"] for p in content if p["type"] == "thinking" for t in p["thinking"])
    return thought, "".join(p.get("text", "") for p in content if p["type"] == "text")


def read_chat_usage(m, tree):
    u = tree.get("usage") or (tree.get("x_groq") or {}).get("usage") or next((c["usage"] for c in tree.get("choices") or [] if c.get("usage")), None)
    if not u:
        return
    details, more = u.get("prompt_tokens_details") or {}, u.get("completion_tokens_details") or {}
    m.prompt, m.output = u["prompt_tokens"], u["completion_tokens"]
    told = [v for v in (details.get("cached_tokens"), u.get("cached_tokens"), u.get("prompt_cache_hit_tokens"), u.get("num_cached_tokens")) if v is not None]
    m.cached, m.written = (told or [0])[0], details.get("cache_write_tokens") or 0
    reasoning = more.get("reasoning_tokens") or 0
    if reasoning and u.get("total_tokens") == m.prompt + m.output + reasoning:
        m.output += reasoning  # this host tells the completion without its reasoning


def read_chat(raw):
    m, calls = Meaning(), []
    for tree in trees(raw):
        read_chat_usage(m, tree)
        for choice in tree.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta") or {}
            thought, text = as_text(delta.get("content"))
            details = "".join(d.get("text") or d.get("summary") or "" for d in delta.get("reasoning_details") or [])
            m.text += text
            m.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or details or thought
            for t in delta.get("tool_calls") or []:
                read_piece(calls, t)
            m.stop = choice.get("finish_reason") or m.stop
    m.tools = [(c["id"], c["name"], arguments_of(c["args"])) for c in calls]
    m.stop = CHAT_STOPS.get(m.stop, "stop")
    if m.tools and m.stop == "stop":
        m.stop = "tools"
    return m


def read_piece(calls, t):
    """Pieces belong together by index; a new id and name after arguments begin another call."""
    f = t.get("function") or {}
    args = f.get("arguments") or ""
    args = args if isinstance(args, str) else json.dumps(args)
    of = [c for c in calls if c["index"] == t.get("index")]
    if not of or (t.get("id") and f.get("name") and of[-1]["args"] and of[-1]["id"] != t["id"]):
        calls.append({"index": t.get("index"), "id": t.get("id"), "name": f.get("name"), "args": args})
    else:
        of[-1]["args"] += args


def merge_messages_usage(m, u):
    parts = u.get("iterations") or [u]

    def all_of(name, before):
        told = [p[name] for p in parts if p.get(name) is not None]
        return sum(told) if told else before
    m.prompt, m.output = all_of("input_tokens", m.prompt), all_of("output_tokens", m.output)
    m.cached, m.written = all_of("cache_read_input_tokens", m.cached), all_of("cache_creation_input_tokens", m.written)


def read_messages(raw):
    """`prompt` counts the cached and the written tokens, as Chat does."""
    m, blocks, has_start = Meaning(), {}, False
    for e in trees(raw):
        kind = e.get("type")
        if kind == "message_start" and not has_start:
            has_start = True
            merge_messages_usage(m, e["message"]["usage"])
        elif kind == "content_block_start":
            blocks[e["index"]] = b = {**e["content_block"], "args": ""}  # an index that comes again begins again
            m.text += b.get("text", "") if b["type"] == "text" else ""
        elif kind == "content_block_delta":
            delta, b = e["delta"], blocks[e["index"]]
            m.text += delta.get("text", "") if delta["type"] == "text_delta" else ""
            m.reasoning += delta.get("thinking", "") if delta["type"] == "thinking_delta" else ""
            b["args"] += delta.get("partial_json", "")
        elif kind == "message_delta":
            m.stop = e["delta"].get("stop_reason") or m.stop
            merge_messages_usage(m, e.get("usage") or {})
    m.tools = [(b["id"], b["name"], arguments_of(b["args"]) or b["input"]) for b in blocks.values() if b["type"] == "tool_use"]
    m.stop = MESSAGES_STOPS.get(m.stop, "stop")
    m.prompt += m.cached + m.written
    return m


def meaning_of(dialect, raw):
    return read_chat(raw) if dialect == "openai" else read_messages(raw)


def whole_meaning(dialect, d):
    """The meaning of a whole answer."""
    m = Meaning()
    if dialect == "openai":
        read_chat_usage(m, d)
        said = d["choices"][0]["message"]
        thought, text = as_text(said["content"])
        details = "".join(d.get("text") or d.get("summary") or "" for d in said.get("reasoning_details") or [])
        m.text, m.reasoning = text or said.get("refusal") or "", said.get("reasoning_content") or said.get("reasoning") or details or thought
        m.tools = [(t["id"], t["function"]["name"], arguments_of(t["function"]["arguments"])) for t in said.get("tool_calls") or []]
        m.stop = CHAT_STOPS.get(d["choices"][0]["finish_reason"], "stop")
        return m
    merge_messages_usage(m, d["usage"])
    m.prompt += m.cached + m.written
    m.text = "".join(b["text"] for b in d["content"] if b["type"] == "text")
    m.reasoning = "".join(b["thinking"] for b in d["content"] if b["type"] == "thinking")
    m.tools = [(b["id"], b["name"], b["input"]) for b in d["content"] if b["type"] == "tool_use"]
    m.stop = MESSAGES_STOPS.get(d["stop_reason"], "stop")
    return m


# ---------------------------------------------------------------- the replay

class Stage:
    """One gateway and a provider of each dialect that replays whatever is put on."""

    def __init__(self, world):
        self.world = world
        self.providers = {d: world.provider([]) for d in ("openai", "anthropic")}
        self.g = world.gateway({"providers": {d: provider_conf(p.port, d) for d, p in self.providers.items()},
                                "routes": [{"model": d, "order": [d], "breaker": "off", "retries": 0} for d in self.providers]})

    def replay(self, dialect, raw, client, is_stream, piece=0, **more):
        pieces = [raw[i:i + piece] for i in range(0, len(raw), piece)] if piece else [raw]
        self.providers[dialect].script = [Reply(SSE_HEAD, *[chunk(p) for p in pieces], LAST)]
        return (self.g.chat if client == "openai" else self.g.messages)(model=dialect, stream=is_stream, **more)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("recorded"))
    yield Stage(world)
    world.end()


def recording(name):
    return (FOLDER / name).read_bytes()


def other(dialect):
    return "anthropic" if dialect == "openai" else "openai"


def assert_same(got, want, client, name):
    assert got.text == want.text
    assert got.tools[-1:] == want.tools[-1:]
    assert got.tools == want.tools or name == SPLICED
    stop = "stop" if want.stop == "sequence" and client == "openai" else want.stop
    assert got.stop == stop
    if want.usage() is not None:
        assert got.usage() == want.usage()


def ends_well(raw):
    """As is_well_ended, also for streams without event names and with other line ends."""
    events = sse_events(raw)
    return bool(events) and (events[-1][1].strip() == "[DONE]" or json.loads(events[-1][1]).get("type") == "message_stop")


def normal_lines(raw):
    """The recording with what a client cannot tell apart taken out: comments before the first event."""
    return re.sub(rb"\A(?:(?::[^\r\n]*\r?\n)+\r?\n|\r?\n)+", b"", raw)


@every_good
def test_same_dialect_is_byte_equal(stage, name, dialect):
    raw = recording(name)
    asked = {"stream_options": {"include_usage": True}} if dialect == "openai" else {}
    for piece in (0, 1, 61) if len(raw) < 8000 else (0, 997):
        r = stage.replay(dialect, raw, dialect, True, piece, **asked)
        assert r.status == 200 and r.is_whole and ends_well(r.body)
        want = normal_lines(raw)
        if not re.search(rb"(\n\n|\r\n\r\n)\Z", want):
            want = want.rstrip(b"\n") + b"\n\n"
        added = r.body[len(want):]
        assert r.body.startswith(want)
        assert added in (b"", b"data: [DONE]\n\n", b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
        assert added == b"" or not (b"[DONE]" in raw or b"message_stop" in raw)


@pytest.mark.parametrize("name", [n for n, d in GOOD if d == "openai"])
def test_usage_is_taken_out_where_it_was_not_asked_for(stage, name):
    raw = recording(name)
    r = stage.replay("openai", raw, "openai", True)
    asked = stage.providers["openai"].requests[-1].json
    assert asked["stream_options"] == {"include_usage": True}
    want = []
    for tree in trees(raw):
        if tree.get("usage") and not tree.get("choices") and "moderation" not in tree and "prompt_filter_results" not in tree:
            continue
        tree.pop("usage", None)
        want.append(tree)
    assert trees(r.body) == want
    assert r.is_whole and ends_well(r.body)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "collected"])
@every_good
def test_other_dialect_means_the_same(stage, name, dialect, is_stream):
    raw, client = recording(name), other(dialect)
    want = meaning_of(dialect, raw)
    asked = {"stream_options": {"include_usage": True}} if client == "openai" and is_stream else {}
    r = stage.replay(dialect, raw, client, is_stream, 173, **asked)
    assert r.status == 200 and r.is_whole
    if is_stream:
        assert r.is_well_ended()
        got = meaning_of(client, r.body)
        assert_same(got, want, client, name)
        assert got.reasoning == want.reasoning
    else:
        got = whole_meaning(client, r.json())
        assert_same(got, want, client, name)
        assert got.reasoning == want.reasoning


@every_good
def test_same_dialect_collected_means_the_same(stage, name, dialect):
    raw = recording(name)
    r = stage.replay(dialect, raw, dialect, False, 173)
    assert r.status == 200
    got, want = whole_meaning(dialect, r.json()), meaning_of(dialect, raw)
    assert_same(got, want, dialect, name)
    assert got.reasoning == want.reasoning


# ---------------------------------------------------------------- collected answers lose nothing

def is_nothing(v):
    return v is None or v == "" or v == [] or v == {}


def put(d, key, v):
    """The last word stands; nothing never replaces something."""
    if key not in d or not is_nothing(v):
        d[key] = v


def told_by_chat(raw):
    """(members of the answer, of its choice and of its message) as the chunks tell them."""
    top, choice, message = {}, {}, {}
    for tree in trees(raw):
        for k, v in tree.items():
            if k in ("id", "model", "created", "object") and top.get(k):
                continue
            if k not in ("choices", "obfuscation") and not (k == "usage" and v is None):
                put(top, k, v)
        for c in tree.get("choices") or []:
            for k, v in c.items() if c.get("index", 0) == 0 else ():
                if k == "usage":
                    put(top, k, v)
                elif k not in ("delta", "message", "text"):  # text: the delta's content once more, in streams only
                    put(choice, k, v)
            for k, v in (c.get("delta") or {}).items() if c.get("index", 0) == 0 else ():
                is_text = isinstance(v, str) and k not in ("role", "name") and isinstance(message.get(k, ""), (str, type(None)))
                put(message, k, (message.get(k) or "") + v if is_text else v)
    top["object"] = "chat.completion"
    if not top.get("usage") and (top.get("x_groq") or {}).get("usage"):
        top["usage"] = top["x_groq"]["usage"]
    return top, choice, message


@pytest.mark.parametrize("name", [n for n, d in GOOD if d == "openai"])
def test_a_collected_chat_answer_loses_nothing(stage, name):
    raw = recording(name)
    top, choice, message = told_by_chat(raw)
    r = stage.replay("openai", raw, "openai", False, 211)
    got = json.loads(r.body, object_pairs_hook=without_doubles)
    assert {k: v for k, v in got.items() if k not in ("choices", "created", "id")} == {k: v for k, v in top.items() if k not in ("created", "id")}
    assert all(got[k] == top[k] for k in ("created", "id") if top.get(k)) and got["id"] and got["created"]
    said = got["choices"][0]
    assert said.keys() == choice.keys() | {"index", "message", "finish_reason"}
    for k, v in choice.items():
        if isinstance(v, (dict, list)):
            assert said[k] and (isinstance(v, list) or v.items() <= said[k].items() or k == "logprobs")
        elif k != "finish_reason" or v != "stop":
            assert said[k] == v
    for k, v in message.items():
        if isinstance(v, str) and not isinstance(said["message"].get(k), list):
            assert said["message"][k] == v or (v == "" and said["message"][k] is None)
        elif k != "tool_calls" and not is_nothing(v):
            assert said["message"][k] == v if isinstance(v, (int, float)) else said["message"][k]
    assert_calls_lose_nothing(said["message"].get("tool_calls") or [], raw)
    details = [d for t in trees(raw) for c in t.get("choices") or [] for d in (c.get("delta") or {}).get("reasoning_details") or []]
    for member in ("text", "summary", "data", "signature"):
        assert "".join(d.get(member) or "" for d in said["message"].get("reasoning_details") or []) == "".join(d.get(member) or "" for d in details)


def assert_calls_lose_nothing(calls, raw):
    told = {k for t in trees(raw) for c in t.get("choices") or [] for call in (c.get("delta") or {}).get("tool_calls") or [] for k in call}
    if calls:
        assert {k for call in calls for k in call} == (told - {"index"}) | {"id", "type"}


def without_doubles(pairs):
    assert len({k for k, _ in pairs}) == len(pairs), f"doubled: {[k for k, _ in pairs]}"
    return dict(pairs)


def told_by_messages(raw):
    message, blocks, usage, has_start = {}, {}, {}, False
    for e in trees(raw):
        if e.get("type") == "message_start" and not has_start:
            has_start = True
            message = {k: v for k, v in e["message"].items() if k not in ("usage", "content")}
            usage = dict(e["message"]["usage"])
        elif e.get("type") == "content_block_start":
            blocks[len(blocks), e["index"]] = dict(e["content_block"])
        elif e.get("type") == "content_block_delta":
            b = [b for (_, i), b in blocks.items() if i == e["index"]][-1]
            if e["delta"]["type"] == "citations_delta":
                b["citations"] = [*(b.get("citations") or []), e["delta"]["citation"]]
            elif e["delta"]["type"] == "input_json_delta":
                b["_pieces"] = b.get("_pieces", "") + e["delta"]["partial_json"]
            else:
                for k in e["delta"].keys() - {"type"}:
                    b[k] = (b.get(k) or "") + e["delta"][k]
        elif e.get("type") == "message_delta":
            for k, v in [*e["delta"].items(), *((k, v) for k, v in e.items() if k not in ("type", "delta", "usage"))]:
                put(message, k, v)
            for k, v in (e.get("usage") or {}).items():
                put(usage, k, v)
    for b in blocks.values():
        pieces = b.pop("_pieces", "")
        if pieces:
            b["input"] = arguments_of(pieces)
    return {**message, "usage": usage, "content": list(blocks.values())}


@pytest.mark.parametrize("name", [n for n, d in GOOD if d == "anthropic"])
def test_a_collected_message_loses_nothing(stage, name):
    raw = recording(name)
    r = stage.replay("anthropic", raw, "anthropic", False, 211)
    got, want = json.loads(r.body, object_pairs_hook=without_doubles), told_by_messages(raw)
    want.setdefault("stop_sequence", None)
    assert got == want


# ---------------------------------------------------------------- recordings that break

def has_output(dialect, raw):
    for tree in trees(raw):
        if dialect == "openai":
            delta = ((tree.get("choices") or [{}])[0].get("delta")) or {}
            if any(delta.get(k) for k in ("content", "reasoning", "reasoning_content", "tool_calls")):
                return True
        elif tree.get("type") == "content_block_delta":
            return True
    return False


def sound_part(raw):
    """Up to the last whole event."""
    return raw[:raw.rfind(b"\n\n") + 2]


@pytest.mark.parametrize("client", ["openai", "anthropic"])
@pytest.mark.parametrize("name, dialect", [r for r in ALL if r[0] in BROKEN], ids=[n for n, d in ALL if n in BROKEN])
def test_a_broken_recording_never_looks_finished(stage, name, dialect, client):
    raw = recording(name)
    r = stage.replay(dialect, raw, client, True)
    if not has_output(dialect, sound_part(raw)):
        assert r.status in (400, 429, 502, 503, 529) and r.json()["error"]["message"]
        return
    assert r.status == 200 and r.is_whole and not r.is_well_ended()
    assert r.stream_error()["message"]
    for tree in trees(r.body):
        assert client != "openai" or all(c.get("finish_reason") is None for c in tree.get("choices") or [])
        assert tree.get("type") not in ("message_delta", "message_stop")
    r = stage.replay(dialect, raw, client, False)
    assert r.status >= 400 and r.json()["error"]["message"]


# ---------------------------------------------------------------- whole answers

def whole_recordings():
    out = []
    for p in sorted(FOLDER.glob("*/*.json")) if FOLDER.is_dir() else []:
        name = str(p.relative_to(FOLDER))
        try:
            d = json.loads(p.read_bytes())
        except ValueError:
            continue
        if isinstance(d, dict) and d.get("choices") and "message" in d["choices"][0]:
            out.append((name, "openai"))
        elif isinstance(d, dict) and d.get("type") == "message" and d.get("role") == "assistant":
            out.append((name, "anthropic"))
    return out


WHOLE = whole_recordings()


@pytest.mark.parametrize("name, dialect", WHOLE, ids=[n for n, _ in WHOLE])
def test_whole_answers(stage, name, dialect):
    """A whole JSON answer, also where a stream was asked for: the same bytes to its own dialect, the same meaning to the other."""
    raw, d = recording(name), json.loads(recording(name))
    want = whole_meaning(dialect, d)
    if dialect == "openai" and not want.reasoning:
        want.reasoning = d["choices"][0]["message"].get("reasoning") or ""
    stage.providers[dialect].script = [Reply(http(200, raw))]
    ask = stage.g.chat if dialect == "openai" else stage.g.messages
    r = ask(model=dialect, stream=False)
    assert (r.status, r.body) == (200, raw.lstrip(b"\n"))  # empty lines before the JSON are a sign of life, no more
    client = other(dialect)
    ask = stage.g.chat if client == "openai" else stage.g.messages
    got = whole_meaning(client, ask(model=dialect, stream=False).json())
    assert_same(got, want, client, name)
    assert got.reasoning == want.reasoning
    asked = {"stream_options": {"include_usage": True}} if client == "openai" else {}
    r = ask(model=dialect, stream=True, **asked)
    assert r.is_well_ended()
    got = meaning_of(client, r.body)
    assert_same(got, want, client, name)
    assert got.reasoning == want.reasoning
