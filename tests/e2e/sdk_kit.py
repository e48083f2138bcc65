"""What the tests with the vendors' SDKs share: an answer that a scripted provider gives in its own dialect, as a stream or
whole, and what an SDK shows of it, in words that are the same for both vendors."""
import dataclasses
import json

import anthropic
import openai

from harness import LAST, SSE_HEAD, Reply, anthropic_event, chunk, http

CLIENTS = ("openai", "anthropic")
TARGETS = ("openai", "anthropic")
HOWS = ("stream", "assembled", "whole")  # the client streams; it waits and we stream upstream; neither streams

MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-5"}

STOPS = {  # neutral word -> how each dialect says it
    "stop": ("stop", "end_turn"),
    "length": ("length", "max_tokens"),
    "tools": ("tool_calls", "tool_use"),
    "refusal": ("content_filter", "refusal"),
    "sequence": ("stop", "stop_sequence"),
}


def stop_word(stop, dialect):
    return STOPS[stop][dialect == "anthropic"]


@dataclasses.dataclass
class Usage:
    """Disjoint counts: `input` is neither cached nor written; `output` includes `reasoning`."""
    input: int = 100
    cached: int = 40
    written: int = 20
    output: int = 30
    reasoning: int = 10

    def wire(self, dialect):
        if dialect == "openai":
            prompt = self.input + self.cached + self.written
            return {"prompt_tokens": prompt, "completion_tokens": self.output, "total_tokens": prompt + self.output,
                    "prompt_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": self.written, "audio_tokens": 0},
                    "completion_tokens_details": {"reasoning_tokens": self.reasoning, "audio_tokens": 0,
                                                  "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}
        return {"input_tokens": self.input, "cache_creation_input_tokens": self.written, "cache_read_input_tokens": self.cached,
                "cache_creation": {"ephemeral_5m_input_tokens": self.written, "ephemeral_1h_input_tokens": 0},
                "output_tokens": self.output, "output_tokens_details": {"thinking_tokens": self.reasoning},
                "server_tool_use": None, "service_tier": "standard"}


@dataclasses.dataclass
class Answer:
    """parts: ("think", pieces), ("text", pieces), ("tool", id, name, pieces of the arguments)."""
    parts: list
    stop: str = "stop"
    sequence: str = None
    usage: Usage = dataclasses.field(default_factory=Usage)
    model: str = "model-of-provider"

    def script(self, dialect):
        def answer(req):
            if req.json.get("stream"):
                return Reply(SSE_HEAD, *[chunk(e) for e in self.events(dialect, req)], LAST)
            return Reply(http(200, self.whole(dialect)))
        return answer

    def events(self, dialect, req):
        if dialect == "openai":
            return self.chat_events((req.json.get("stream_options") or {}).get("include_usage"))
        return self.messages_events()

    # ---- Chat Completions

    def chat_chunk(self, delta, finish=None, has_usage=False, **more):
        head = {"id": "chatcmpl-Zz9", "object": "chat.completion.chunk", "created": 1796000000, "model": self.model,
                "service_tier": "default", "system_fingerprint": "fp_1",
                "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **more}]}
        if has_usage:
            head["usage"] = None
        return b"data: " + json.dumps(head).encode() + b"\n\n"

    def chat_events(self, has_usage):
        out, n_tools = [], 0
        out.append(self.chat_chunk({"role": "assistant", "content": "", "refusal": None}, has_usage=has_usage))
        for kind, *rest in self.parts:
            if kind == "tool":
                call_id, name, pieces = rest
                start = {"index": n_tools, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
                out.append(self.chat_chunk({"tool_calls": [start]}, has_usage=has_usage))
                for p in pieces or ["{}"]:
                    out.append(self.chat_chunk({"tool_calls": [{"index": n_tools, "function": {"arguments": p}}]}, has_usage=has_usage))
                n_tools += 1
            else:
                member = "reasoning_content" if kind == "think" else "content"
                out += [self.chat_chunk({member: p}, has_usage=has_usage) for p in rest[0]]
        more = {"stop_reason": self.sequence} if self.sequence else {}
        out.append(self.chat_chunk({}, stop_word(self.stop, "openai"), has_usage, **more))
        if has_usage:
            last = {"id": "chatcmpl-Zz9", "object": "chat.completion.chunk", "created": 1796000000, "model": self.model,
                    "choices": [], "usage": self.usage.wire("openai")}
            out.append(b"data: " + json.dumps(last).encode() + b"\n\n")
        return out + [b"data: [DONE]\n\n"]

    def chat_message(self):
        m = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
        calls = []
        for kind, *rest in self.parts:
            if kind == "tool":
                calls.append({"id": rest[0], "type": "function", "function": {"name": rest[1], "arguments": "".join(rest[2]) or "{}"}})
            elif kind == "think":
                m["reasoning_content"] = "".join(rest[0])
            else:
                m["content"] = (m["content"] or "") + "".join(rest[0])
        if calls:
            m["tool_calls"] = calls
        return m

    def whole(self, dialect):
        if dialect == "openai":
            more = {"stop_reason": self.sequence} if self.sequence else {}
            return {"id": "chatcmpl-Zz9", "object": "chat.completion", "created": 1796000000, "model": self.model,
                    "choices": [{"index": 0, "message": self.chat_message(), "logprobs": None,
                                 "finish_reason": stop_word(self.stop, "openai"), **more}],
                    "usage": self.usage.wire("openai")}
        return {"id": "msg_Zz9", "type": "message", "role": "assistant", "model": self.model, "content": self.blocks(),
                "stop_reason": stop_word(self.stop, "anthropic"), "stop_sequence": self.sequence, "usage": self.usage.wire("anthropic")}

    # ---- Messages

    def blocks(self):
        out = []
        for kind, *rest in self.parts:
            if kind == "tool":
                out.append({"type": "tool_use", "id": rest[0], "name": rest[1], "input": json.loads("".join(rest[2]) or "{}")})
            elif kind == "think":
                out.append({"type": "thinking", "thinking": "".join(rest[0]), "signature": SIGNATURE})
            else:
                out.append({"type": "text", "text": "".join(rest[0])})
        return out

    def messages_events(self):
        first = {**self.usage.wire("anthropic"), "output_tokens": 1}
        out = [anthropic_event("message_start", {"message": {"id": "msg_Zz9", "type": "message", "role": "assistant", "model": self.model,
                               "content": [], "stop_reason": None, "stop_sequence": None, "usage": first}}),
               anthropic_event("ping", {})]
        for i, (kind, *rest) in enumerate(self.parts):
            if kind == "tool":
                start, delta = {"type": "tool_use", "id": rest[0], "name": rest[1], "input": {}}, ("input_json_delta", "partial_json")
            else:
                start, delta = BLOCKS[kind]
            out.append(anthropic_event("content_block_start", {"index": i, "content_block": start}))
            pieces = ["", *rest[2]] if kind == "tool" else rest[0]
            out += [anthropic_event("content_block_delta", {"index": i, "delta": {"type": delta[0], delta[1]: p}}) for p in pieces]
            if kind == "think":
                out.append(anthropic_event("content_block_delta", {"index": i, "delta": {"type": "signature_delta", "signature": SIGNATURE}}))
            out.append(anthropic_event("content_block_stop", {"index": i}))
        out.append(anthropic_event("message_delta", {"delta": {"stop_reason": stop_word(self.stop, "anthropic"), "stop_sequence": self.sequence},
                                                     "usage": {"output_tokens": self.usage.output,
                                                               "output_tokens_details": {"thinking_tokens": self.usage.reasoning}}}))
        out.append(anthropic_event("message_stop", {}))
        return out


SIGNATURE = "EqQBCkYIBRgCKkDTrueSignature=="
BLOCKS = {"text": ({"type": "text", "text": ""}, ("text_delta", "text")),
          "think": ({"type": "thinking", "thinking": "", "signature": ""}, ("thinking_delta", "thinking"))}


# ---------------------------------------------------------------- clients

def openai_client(g, **kw):
    kw = {"api_key": "sk-of-the-client", "max_retries": 0, "timeout": 60, **kw}
    return openai.OpenAI(base_url=f"http://127.0.0.1:{g.port}/v1", http_client=openai.DefaultHttpxClient(trust_env=False), **kw)


def anthropic_client(g, **kw):
    kw = {"api_key": "sk-of-the-client", "max_retries": 0, "timeout": 60, **kw}
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{g.port}", http_client=anthropic.DefaultHttpxClient(trust_env=False), **kw)


@dataclasses.dataclass
class Seen:
    """One answer as an SDK shows it."""
    text: str
    reasoning: str
    tools: list  # (id, name, arguments as an object)
    stop: str    # the client's own dialect's word
    usage: Usage
    model: str
    id: str
    headers: dict
    message: object  # to be sent back in the next turn
    sequence: str = None
    details: object = None

    def trail(self):
        return [e.split(";") for e in self.headers["x-ringmain-trail"].split(", ")]


def openai_usage(u):
    details = u.prompt_tokens_details  # a provider may leave it out, and what it says is not added to
    cached, written = getattr(details, "cached_tokens", 0) or 0, getattr(details, "cache_write_tokens", 0) or 0
    assert u.total_tokens == u.prompt_tokens + u.completion_tokens
    return Usage(u.prompt_tokens - cached - written, cached, written, u.completion_tokens,
                 getattr(u.completion_tokens_details, "reasoning_tokens", 0) or 0)


def anthropic_usage(u):
    return Usage(u.input_tokens, u.cache_read_input_tokens, u.cache_creation_input_tokens, u.output_tokens,
                 u.output_tokens_details.thinking_tokens if u.output_tokens_details else None)


class ChatStream:
    """Collects chunks by the rules of the dialect, and minds their order."""

    def __init__(self):
        self.text, self.reasoning, self.tools, self.stop, self.usage, self.n_usage = "", "", {}, None, None, 0
        self.model = self.id = None

    def put(self, c):
        assert self.id in (None, c.id)
        self.id, self.model = c.id, c.model
        if c.usage is not None:
            self.usage, self.n_usage = openai_usage(c.usage), self.n_usage + 1
        if not c.choices:
            return
        assert self.stop is None, "a chunk with a choice after the finish chunk"
        choice = c.choices[0]
        self.text += choice.delta.content or ""
        self.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        for t in choice.delta.tool_calls or []:
            if t.index not in self.tools:
                assert t.id and t.function.name and t.type == "function"
                self.tools[t.index] = [t.id, t.function.name, ""]
            self.tools[t.index][2] += t.function.arguments or ""
        self.stop = choice.finish_reason

    def message(self):
        m = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            m["reasoning_content"] = self.reasoning
        if self.tools:
            assert sorted(self.tools) == list(range(len(self.tools)))
            m["tool_calls"] = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in self.tools.values()]
        return m


def ask_openai(g, model, how, client=None, **kw):
    client = client or openai_client(g)
    if how != "stream":
        raw = client.chat.completions.with_raw_response.create(model=model, **kw)
        r = raw.parse()
        m = r.choices[0].message
        tools = [(t.id, t.function.name, json.loads(t.function.arguments)) for t in m.tool_calls or []]
        return Seen(m.content or "", getattr(m, "reasoning_content", None) or "", tools, r.choices[0].finish_reason, openai_usage(r.usage),
                    r.model, r.id, raw.headers, m.model_dump(exclude_none=True))
    kw.setdefault("stream_options", {"include_usage": True})
    raw = client.chat.completions.with_raw_response.create(model=model, stream=True, **kw)
    s = ChatStream()
    for c in raw.parse():
        s.put(c)
    tools = [(i, n, json.loads(a)) for i, n, a in s.tools.values()]
    assert s.n_usage == (1 if kw["stream_options"].get("include_usage") else 0)
    return Seen(s.text, s.reasoning, tools, s.stop, s.usage, s.model, s.id, raw.headers, s.message())


def ask_anthropic(g, model, how, client=None, **kw):
    client = client or anthropic_client(g)
    kw.setdefault("max_tokens", 500)
    if how == "stream":
        with client.messages.stream(model=model, **kw) as s:
            m, headers = s.get_final_message(), s.response.headers
    else:
        raw = client.messages.with_raw_response.create(model=model, **kw)
        m, headers = raw.parse(), raw.headers
    tools = [(b.id, b.name, b.input) for b in m.content if b.type == "tool_use"]
    return Seen("".join(b.text for b in m.content if b.type == "text"), "".join(b.thinking for b in m.content if b.type == "thinking"),
                tools, m.stop_reason, anthropic_usage(m.usage), m.model, m.id, headers,
                {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in m.content]}, m.stop_sequence, m.stop_details)
