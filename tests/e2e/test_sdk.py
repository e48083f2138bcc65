"""The vendors' own Python SDKs against the real binary: each SDK, each dialect of the provider, streaming, collected and whole.
Asserted are both ends: what the SDK shows, and what the provider was sent."""
import asyncio
import hashlib
import json

import anthropic
import openai
import pytest
from pydantic import BaseModel

from conftest import World
from harness import ROOT, Reply, anthropic_event, error_json, events, good, http, openai_chunk, provider_conf, stream, wait_for
from sdk_kit import (CLIENTS, HOWS, MODELS, SIGNATURE, TARGETS, Answer, Usage, anthropic_client, ask_anthropic, ask_openai,
                     openai_client, stop_word)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 12345678901234567890}},
           "required": ["city"], "additionalProperties": False}
NOTHING = {"type": "object", "properties": {}}


class Wire:
    """One gateway with a provider of each dialect. Routes: `<dialect>` and, with upstream streaming off, `<dialect>-whole`;
    `new-openai` has a reasoning model, `old-anthropic` one that still takes sampling."""

    def __init__(self, world):
        self.providers = {d: world.provider(good(d)) for d in TARGETS}
        links = {d: [{"provider": d, "model": MODELS[d]}] for d in TARGETS}
        self.g = world.gateway({
            "providers": {d: provider_conf(p.port, d, key=f"sk-of-{d}", vendor=d) for d, p in self.providers.items()},
            "routes": [{"model": d, "chain": links[d], "breaker": "off"} for d in TARGETS]
            + [{"model": f"{d}-whole", "chain": links[d], "breaker": "off", "upstream_stream": "off"} for d in TARGETS]
            + [{"model": "new-openai", "chain": [{"provider": "openai", "model": "gpt-5.6"}]},
               {"model": "old-anthropic", "chain": [{"provider": "anthropic", "model": "claude-sonnet-4-5"}]}]})

    def answers(self, target, *answers):
        """What the provider says from now on: one answer after the other, the last one again and again."""
        p = self.providers[target]
        scripts, before = [a.script(target) for a in answers], len(p.requests)
        p.script = lambda req: scripts[min(req.n - before, len(scripts)) - 1](req)
        return p

    def ask(self, client, target, how, **kw):
        model = kw.pop("model", None) or (f"{target}-whole" if how == "whole" else target)
        return (ask_openai if client == "openai" else ask_anthropic)(self.g, model, how, **kw)


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("sdk"))
    yield Wire(world)
    world.end()


every_client = pytest.mark.parametrize("client", CLIENTS)
every_target = pytest.mark.parametrize("target", TARGETS)
every_how = pytest.mark.parametrize("how", HOWS)


def conversation(client, system, *turns):
    """Keywords of both SDKs for a system text and turns of (role, content)."""
    messages = [{"role": role, "content": content} for role, content in turns]
    if client == "openai":
        return {"messages": [{"role": "system", "content": system}, *messages] if system else messages}
    return {"messages": messages, **({"system": system} if system else {})}


def tools_of(client, *tools):
    if client == "openai":
        return [{"type": "function", "function": {"name": n, "description": d, "parameters": s}} for n, d, s in tools]
    return [{"name": n, "description": d, "input_schema": s} for n, d, s in tools]


# ---------------------------------------------------------------- text, usage, head

@every_how
@every_target
@every_client
def test_text(wire, client, target, how):
    p = wire.answers(target, Answer([("text", ["Grüße", ", ", "世界 ", "\U0001f600\n", "\"end\" \\ "])]))
    seen = wire.ask(client, target, how, **conversation(client, "Be brief. ü", ("user", "Say \"hello\"\n\u2028 \U0001f680")))
    assert seen.text == "Grüße, 世界 \U0001f600\n\"end\" \\ "
    assert (seen.tools, seen.reasoning) == ([], "")
    assert seen.stop == stop_word("stop", client)
    assert seen.usage == Usage()
    assert seen.model == "model-of-provider"
    assert seen.headers["x-ringmain-provider"] == target
    assert seen.headers["x-ringmain-attempts"] == "1"
    assert seen.trail()[0][:2] == [f"{target}/{MODELS[target]}", "ok"]
    body = p.requests[-1].json
    assert body["model"] == MODELS[target]
    assert bool(body.get("stream")) == (how != "whole")
    said = body["messages"][-1]
    assert said == {"role": "user", "content": "Say \"hello\"\n\u2028 \U0001f680"}
    if target == "openai":
        assert body["messages"][0] == {"role": "system", "content": "Be brief. ü"}
        assert (body.get("stream_options") == {"include_usage": True}) == (how != "whole")
    else:
        system = body["system"]
        assert (system if isinstance(system, str) else "".join(b["text"] for b in system)) == "Be brief. ü"
        assert body["max_tokens"] > 0 and "stream_options" not in body


@every_target
@every_client
def test_whose_credentials_and_headers_go_up(wire, client, target):
    p = wire.answers(target, Answer([("text", ["x"])]))
    wire.ask(client, target, "stream", **conversation(client, None, ("user", "x")))
    r = p.requests[-1]
    assert r.path == ("/v1/chat/completions" if target == "openai" else "/v1/messages")
    assert b"sk-of-the-client" not in r.raw_head
    assert not [h for h in r.headers if h.startswith("x-stainless")]
    assert "python" not in r.headers.get("user-agent", "").lower()
    if target == "openai":
        assert r.headers["authorization"] == "Bearer sk-of-openai"
        assert "anthropic-version" not in r.headers and "x-api-key" not in r.headers
    else:
        assert r.headers["x-api-key"] == "sk-of-anthropic" and "authorization" not in r.headers
        newest = anthropic.Anthropic(api_key="x").default_headers["anthropic-version"]
        assert r.headers["anthropic-version"] == (newest if client == "anthropic" else "2023-06-01")


@every_target
@pytest.mark.parametrize("usage", [Usage(), Usage(7, 0, 0, 5, 0), Usage(0, 96, 4, 1, 0), Usage(1, 0, 900, 64, 64)], ids=str)
@every_client
def test_usage_with_cache(wire, client, target, usage):
    for how in HOWS:
        wire.answers(target, Answer([("text", ["x"])], usage=usage))
        seen = wire.ask(client, target, how, **conversation(client, None, ("user", "x")))
        assert seen.usage == usage, how
        row = wire.g.row(seen.headers["x-ringmain-request-id"])["attempts"][0]
        assert row["tokens_from"] == "reported"
        told = row["tokens"]
        assert (told["input"], told["cache_read"], told["cache_write_5m"], told["output"], told["reasoning"]) == \
            (usage.input, usage.cached, usage.written, usage.output, usage.reasoning), how


@every_target
def test_usage_chunk_only_where_asked_for(wire, target):
    client = openai_client(wire.g)
    for asked in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": {"include_usage": True}}):
        p = wire.answers(target, Answer([("text", ["a", "b"])]))
        chunks = list(client.chat.completions.create(model=target, stream=True, messages=[{"role": "user", "content": "x"}], **asked))
        wants = asked.get("stream_options", {}).get("include_usage", False)
        assert [c.usage is not None for c in chunks] == [False] * (len(chunks) - 1) + [wants]
        assert [len(c.choices) for c in chunks] == [1] * (len(chunks) - 1) + [0 if wants else 1]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "ab"
        if not wants:
            assert all("usage" not in c.model_fields_set for c in chunks)
        if target == "openai":
            assert p.requests[-1].json["stream_options"]["include_usage"] is True


# ---------------------------------------------------------------- tools

CALLS = [("tool", "call_aB3-x_1", "get_weather", ['{"city"', ': "Zü', 'rich", "days": 9007199254740993', "}"]),
         ("tool", "call_2", "get_weather", ['{"city": "\\u00d6rebro \\"x\\" \\\\"}']),
         ("tool", "call_3", "get_time", [])]
SEEN_CALLS = [("call_aB3-x_1", "get_weather", {"city": "Zürich", "days": 9007199254740993}),
              ("call_2", "get_weather", {"city": "Örebro \"x\" \\"}), ("call_3", "get_time", {})]
TOOLS = (("get_weather", "Weather of a city.", WEATHER), ("get_time", "What time it is.", NOTHING))


def results_of(client, results):
    """The next turn's messages: results of tools (id, text, is_error), then a text of the user's."""
    if client == "openai":
        return [{"role": "tool", "tool_call_id": i, "content": t} for i, t, _ in results] + [{"role": "user", "content": "And?"}]
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": t, **({"is_error": True} if e else {})} for i, t, e in results]
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": "And?"}]}]


@every_how
@every_target
@every_client
def test_parallel_tools_and_the_turn_after(wire, client, target, how):
    p = wire.answers(target, Answer([("text", ["Let me see."]), *CALLS], stop="tools"), Answer([("text", ["Rain."])]))
    first = conversation(client, None, ("user", "Weather?"))
    seen = wire.ask(client, target, how, tools=tools_of(client, *TOOLS), **first)
    assert seen.text == "Let me see."
    assert seen.tools == SEEN_CALLS
    assert seen.stop == stop_word("tools", client)

    results = [("call_aB3-x_1", "rain", False), ("call_2", "no such town", True), ("call_3", "12:00", False)]
    second = {"messages": [*first["messages"], seen.message, *results_of(client, results)]}
    after = wire.ask(client, target, how, tools=tools_of(client, *TOOLS), **second)
    assert (after.text, after.stop) == ("Rain.", stop_word("stop", client))
    check_history(client, target, p.requests[-1].json)


def check_history(client, target, body):
    messages = body["messages"]
    assert messages[0] == {"role": "user", "content": "Weather?"}
    error = "no such town" if client == "openai" or target == "anthropic" else "Error: no such town"
    if target == "openai":
        said = messages[1]
        assert (said["role"], said["content"]) == ("assistant", "Let me see.")
        assert [(t["id"], t["type"], t["function"]["name"], json.loads(t["function"]["arguments"])) for t in said["tool_calls"]] == \
            [(i, "function", n, a) for i, n, a in SEEN_CALLS]
        assert messages[2:] == [{"role": "tool", "tool_call_id": "call_aB3-x_1", "content": "rain"},
                                {"role": "tool", "tool_call_id": "call_2", "content": error},
                                {"role": "tool", "tool_call_id": "call_3", "content": "12:00"},
                                {"role": "user", "content": "And?"}]
        assert body["tools"] == tools_of("openai", *TOOLS)
        return
    assert messages[1]["role"] == "assistant"
    assert [(b["type"], b.get("text"), b.get("id"), b.get("name"), b.get("input")) for b in messages[1]["content"]] == \
        [("text", "Let me see.", None, None, None), *[("tool_use", None, i, n, a) for i, n, a in SEEN_CALLS]]
    assert len(messages) == 3 and messages[2]["role"] == "user"
    results = messages[2]["content"]
    assert [b["type"] for b in results] == ["tool_result"] * 3 + ["text"]
    assert [b["tool_use_id"] for b in results[:3]] == [i for i, _, _ in SEEN_CALLS]
    assert [b["content"] for b in results[:3]] == ["rain", error, "12:00"]
    assert results[3]["text"] == "And?"
    assert [b.get("is_error", False) for b in results[:3]] == [False, client == "anthropic", False]
    assert body["tools"] == tools_of("anthropic", *TOOLS)


@every_how
@every_target
@every_client
def test_only_a_call_without_arguments(wire, client, target, how):
    wire.answers(target, Answer([CALLS[2]], stop="tools"))
    seen = wire.ask(client, target, how, tools=tools_of(client, *TOOLS), **conversation(client, None, ("user", "Time?")))
    assert (seen.text, seen.tools, seen.stop) == ("", [("call_3", "get_time", {})], stop_word("tools", client))


@every_how
@pytest.mark.parametrize("arguments", ["", None])
def test_no_arguments_at_all_are_an_empty_object(wire, arguments, how):
    """Some hosts send an empty text, or null, where OpenAI sends {}."""
    call = {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": arguments}}

    def answer(req):
        if not req.json.get("stream"):
            return Reply(http(200, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": Usage().wire("openai"), "choices": [
                {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}))
        return stream(openai_chunk({"role": "assistant", "content": None, "tool_calls": [{"index": 0, **call}]}),
                      openai_chunk({}, "tool_calls", usage=Usage().wire("openai")), b"data: [DONE]\n\n")
    wire.providers["openai"].script = answer
    seen = wire.ask("anthropic", "openai", how, messages=[{"role": "user", "content": "Time?"}], tools=tools_of("anthropic", *TOOLS))
    assert (seen.tools, seen.stop, seen.usage) == ([("c1", "get_time", {})], "tool_use", Usage())


@pytest.mark.parametrize("client, choice, target, told", [
    ("openai", "required", "anthropic", {"type": "any"}),
    ("openai", "none", "anthropic", {"type": "none"}),
    ("openai", {"type": "function", "function": {"name": "get_time"}}, "anthropic", {"type": "tool", "name": "get_time"}),
    ("anthropic", {"type": "any"}, "openai", "required"),
    ("anthropic", {"type": "auto"}, "openai", "auto"),
    ("anthropic", {"type": "none"}, "openai", "none"),
    ("anthropic", {"type": "tool", "name": "get_time"}, "openai", {"type": "function", "function": {"name": "get_time"}}),
])
def test_tool_choice(wire, client, choice, target, told):
    p = wire.answers(target, Answer([("text", ["x"])]))
    wire.ask(client, target, "stream", tools=tools_of(client, *TOOLS), tool_choice=choice, **conversation(client, None, ("user", "x")))
    assert p.requests[-1].json["tool_choice"] == told


def test_one_tool_at_a_time(wire):
    p = wire.answers("anthropic", Answer([("text", ["x"])]))
    wire.ask("openai", "anthropic", "stream", tools=tools_of("openai", *TOOLS), parallel_tool_calls=False, messages=[{"role": "user", "content": "x"}])
    assert p.requests[-1].json["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    p = wire.answers("openai", Answer([("text", ["x"])]))
    wire.ask("anthropic", "openai", "stream", tools=tools_of("anthropic", *TOOLS), messages=[{"role": "user", "content": "x"}],
             tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert p.requests[-1].json["parallel_tool_calls"] is False


def test_interleaved_calls_come_out_as_blocks_one_after_the_other(wire):
    def piece(i, args):
        return openai_chunk({"tool_calls": [{"index": i, "function": {"arguments": args}}]})

    def call(i, call_id, name):
        return openai_chunk({"tool_calls": [{"index": i, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}]})
    wire.providers["openai"].script = [stream(
        openai_chunk({"role": "assistant", "content": None}), call(0, "c0", "one"), call(1, "c1", "two"), piece(1, '{"b"'), piece(0, '{"a"'),
        piece(0, ":1}"), piece(1, ":2}"), openai_chunk({}, "tool_calls"), b"data: [DONE]\n\n")]
    with anthropic_client(wire.g).messages.stream(model="openai", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as s:
        kinds = [(e.type, e.index) for e in s if e.type in ("content_block_start", "content_block_stop")]
        got = s.get_final_message()
    assert kinds == [("content_block_start", 0), ("content_block_stop", 0), ("content_block_start", 1), ("content_block_stop", 1)]
    assert [(b.id, b.name, b.input) for b in got.content] == [("c0", "one", {"a": 1}), ("c1", "two", {"b": 2})]


# ---------------------------------------------------------------- answers that no stream can be collected into

@pytest.mark.parametrize("asked", [
    {"logprobs": True, "top_logprobs": 2}, {"moderation": {"model": "omni"}},
    {"tools": [{"type": "custom", "custom": {"name": "shell"}}]}, {"functions": [{"name": "old", "parameters": NOTHING}]}], ids=lambda a: next(iter(a)))
def test_chat_calls_that_are_asked_for_whole(wire, asked):
    p = wire.providers["openai"]
    p.script = [Reply(http(200, Answer([("text", ["x"])]).whole("openai")))]
    r = openai_client(wire.g).chat.completions.create(model="openai", messages=[{"role": "user", "content": "x"}], extra_body=asked)
    assert r.choices[0].message.content == "x"
    assert "stream" not in p.requests[-1].json
    wire.answers("openai", Answer([("text", ["x"])]))
    wire.ask("openai", "openai", "stream", messages=[{"role": "user", "content": "x"}], extra_body=asked)
    assert p.requests[-1].json["stream"] is True


@pytest.mark.parametrize("asked", [
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "citations": {"enabled": True},
                                                "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]}]}, {"mcp_servers": [{"type": "url", "url": "https://m.test", "name": "m"}]}],
    ids=lambda a: next(iter(a)))
def test_blocks_of_tools_that_ran_at_anthropic_come_down(wire, asked):
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    answer = Answer([("text", ["x"])]).whole("anthropic")
    answer["content"] = [search, found, *answer["content"]]
    p = wire.providers["anthropic"]
    p.script = [Reply(http(200, answer))]
    m = anthropic_client(wire.g).messages.create(model="anthropic", max_tokens=9, messages=[{"role": "user", "content": "x"}], extra_body=asked)
    assert [b.type for b in m.content] == ["server_tool_use", "web_search_tool_result", "text"]
    assert "stream" not in p.requests[-1].json


# ---------------------------------------------------------------- images, system, parameters

@every_target
@every_client
def test_images(wire, client, target):
    p = wire.answers(target, Answer([("text", ["A dot."])]))
    if client == "openai":
        content = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                   {"type": "image_url", "image_url": {"url": "https://pictures.test/a.jpg"}}]
    else:
        content = [{"type": "text", "text": "What?"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                   {"type": "image", "source": {"type": "url", "url": "https://pictures.test/a.jpg"}}]
    assert wire.ask(client, target, "stream", messages=[{"role": "user", "content": content}]).text == "A dot."
    text, inline, far = p.requests[-1].json["messages"][0]["content"]
    assert text["text"] == "What?"
    if target == "openai":
        assert [inline["image_url"]["url"], far["image_url"]["url"]] == [f"data:image/png;base64,{PNG}", "https://pictures.test/a.jpg"]
    else:
        assert inline["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}
        assert far["source"] == {"type": "url", "url": "https://pictures.test/a.jpg"}


def test_image_in_a_tool_result(wire):
    p = wire.answers("openai", Answer([("text", ["x"])]))
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "get_time", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "text", "text": "a clock"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}
    wire.ask("anthropic", "openai", "stream", tools=tools_of("anthropic", *TOOLS),
             messages=[{"role": "user", "content": "x"}, use, {"role": "user", "content": [result]}])
    messages = p.requests[-1].json["messages"]
    assert messages[2] == {"role": "tool", "tool_call_id": "t1", "content": "a clock"}
    assert messages[3]["role"] == "user" and messages[3]["content"][0]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


def test_system_and_developer_messages(wire):
    p = wire.answers("anthropic", Answer([("text", ["x"])]))
    wire.ask("openai", "anthropic", "stream", messages=[
        {"role": "system", "content": "First."}, {"role": "developer", "content": [{"type": "text", "text": "Second."}]},
        {"role": "user", "content": "u1"}, {"role": "assistant", "content": "a1"}, {"role": "developer", "content": "Later."},
        {"role": "user", "content": "u2"}])
    body = p.requests[-1].json
    assert [b["text"] for b in body["system"]] == ["First.", "Second."]
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    last = body["messages"][-1]["content"]
    texts = [last] if isinstance(last, str) else [b["text"] for b in last]
    assert "Later." in "".join(texts) and texts[-1].endswith("u2")

    p = wire.answers("openai", Answer([("text", ["x"])]))
    wire.ask("anthropic", "openai", "stream", messages=[{"role": "user", "content": "u1"}], system=[
        {"type": "text", "text": "First.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Second."}])
    system, user = p.requests[-1].json["messages"]
    assert (system["role"], user) == ("system", {"role": "user", "content": "u1"})
    assert system["content"].startswith("First.") and system["content"].endswith("Second.")


def test_parameters_from_chat_to_messages(wire):
    p = wire.answers("anthropic", Answer([("text", ["x"])]))
    user = [{"role": "user", "content": "x"}]
    seen = wire.ask("openai", "anthropic", "stream", model="old-anthropic", messages=user, temperature=1.5, stop=["END", "\n"], seed=7,
                    max_completion_tokens=300, user="u-1")
    body = p.requests[-1].json
    assert (body["temperature"], body["stop_sequences"], body["max_tokens"], body["metadata"]) == (1, ["END"], 300, {"user_id": "u-1"})
    assert "seed" not in body and "max_completion_tokens" not in body
    assert "temperature=1" in seen.headers["x-ringmain-adjusted"] and "seed=dropped" in seen.headers["x-ringmain-adjusted"]

    seen = wire.ask("openai", "anthropic", "stream", messages=user, temperature=0.2, max_tokens=50)
    body = p.requests[-1].json
    assert "temperature" not in body and body["max_tokens"] == 50  # this model answers 400 to sampling
    assert "temperature=dropped" in seen.headers["x-ringmain-adjusted"]


def test_parameters_from_messages_to_chat(wire):
    p = wire.answers("openai", Answer([("text", ["x"])]))
    user = [{"role": "user", "content": "x"}]
    seen = wire.ask("anthropic", "openai", "stream", messages=user, max_tokens=77, metadata={"user_id": "u-1"},
                    stop_sequences=["a", "b", "c", "d", "e"], extra_body={"temperature": 0.25, "top_k": 5})
    body = p.requests[-1].json
    assert (body["temperature"], body["stop"], body["max_completion_tokens"], body["user"]) == (0.25, ["a", "b", "c", "d"], 77, "u-1")
    assert not {"top_k", "max_tokens", "metadata", "stop_sequences"} & set(body)
    assert "top_k=dropped" in seen.headers["x-ringmain-adjusted"]


# ---------------------------------------------------------------- thinking

THOUGHT = Answer([("think", ["Let me ", "think."]), ("text", ["Six."])])


@every_how
@every_target
@every_client
def test_thinking_is_shown(wire, client, target, how):
    wire.answers(target, THOUGHT)
    seen = wire.ask(client, target, how, **conversation(client, None, ("user", "2*3?")))
    assert (seen.reasoning, seen.text, seen.stop) == ("Let me think.", "Six.", stop_word("stop", client))
    if client == "anthropic":
        assert [b["type"] for b in seen.message["content"]] == ["thinking", "text"]
        signature = seen.message["content"][0]["signature"]
        assert signature == SIGNATURE if target == "anthropic" else signature not in ("", SIGNATURE)


@every_how
@pytest.mark.parametrize("then", TARGETS)
@every_target
@every_client
def test_thinking_sent_back_in_the_next_turn(wire, client, target, then, how):
    wire.answers(target, THOUGHT)
    first = conversation(client, None, ("user", "2*3?"))
    seen = wire.ask(client, target, how, **first)
    p = wire.answers(then, Answer([("text", ["Seven."])]))
    assert wire.ask(client, then, how, messages=[*first["messages"], seen.message, {"role": "user", "content": "+1?"}]).text == "Seven."
    body = p.requests[-1].json
    said = body["messages"][1]
    if client == "openai" and then == "openai":
        assert said["reasoning_content"] == "Let me think."  # the client's own bytes
    elif client == "anthropic" and target == then == "anthropic":
        assert said["content"][0] == {"type": "thinking", "thinking": "Let me think.", "signature": SIGNATURE}
        assert said["content"][1]["text"] == "Six."
    else:
        assert "Let me think." not in p.requests[-1].body.decode()
        assert "signature" not in p.requests[-1].body.decode()
        assert said["content"] == "Six." or [b["text"] for b in said["content"]] == ["Six."]


def test_thinking_before_a_tool_call_moves_away_and_back(wire):
    """A tool loop begun at Anthropic, continued elsewhere, and brought back: every provider gets only what it can read."""
    turn = [{"role": "user", "content": "Weather?"}]
    wire.answers("anthropic", Answer([("think", ["Hm."]), CALLS[1]], stop="tools"))
    thinking = {"type": "adaptive"}
    a = wire.ask("anthropic", "anthropic", "stream", messages=turn, tools=tools_of("anthropic", *TOOLS), thinking=thinking)
    turn += [a.message, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_2", "content": "rain"}]}]
    o = wire.answers("openai", Answer([("think", ["Oh."]), CALLS[2]], stop="tools"))
    b = wire.ask("anthropic", "openai", "stream", messages=turn, tools=tools_of("anthropic", *TOOLS), thinking=thinking)
    assert "Hm." not in o.requests[-1].body.decode() and SIGNATURE not in o.requests[-1].body.decode()
    turn += [b.message, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_3", "content": "12:00"}]}]
    p = wire.answers("anthropic", Answer([("text", ["Rain at noon."])]))
    c = wire.ask("anthropic", "anthropic", "stream", messages=turn, tools=tools_of("anthropic", *TOOLS), thinking=thinking)
    assert c.text == "Rain at noon."
    said = [m["content"] for m in p.requests[-1].json["messages"] if m["role"] == "assistant"]
    assert said[0][0] == {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}
    assert [block["type"] for block in said[1]] == ["tool_use"]


def test_effort(wire):
    p = wire.answers("anthropic", THOUGHT)
    wire.ask("openai", "anthropic", "stream", messages=[{"role": "user", "content": "x"}], reasoning_effort="high")
    assert (p.requests[-1].json["thinking"]["type"], p.requests[-1].json["output_config"]) == ("adaptive", {"effort": "high"})
    p = wire.answers("openai", THOUGHT)
    wire.ask("anthropic", "openai", "stream", model="new-openai", messages=[{"role": "user", "content": "x"}], max_tokens=20000,
             thinking={"type": "enabled", "budget_tokens": 10000})
    assert p.requests[-1].json["reasoning_effort"] == "medium"


# ---------------------------------------------------------------- ends

@every_how
@every_target
@pytest.mark.parametrize("stop", ["stop", "length", "refusal"])
@every_client
def test_stop_reasons(wire, client, target, stop, how):
    wire.answers(target, Answer([("text", ["Once upon"])], stop=stop))
    seen = wire.ask(client, target, how, **conversation(client, None, ("user", "x")))
    assert (seen.text, seen.stop) == ("Once upon", stop_word(stop, client))


@every_how
@every_target
@every_client
def test_stop_sequence(wire, client, target, how):
    wire.answers(target, Answer([("text", ["Once"])], stop="sequence", sequence="END"))
    seen = wire.ask(client, target, how, **conversation(client, None, ("user", "x")))
    assert seen.stop == stop_word("sequence", client)
    if client == "anthropic":
        assert seen.sequence == "END"


@every_how
@every_client
def test_refusal_of_a_classifier_has_details(wire, client, how):
    """stop_details tells why, and Messages clients act on it; Chat has no place for it."""
    details = {"type": "refusal", "category": "cyber", "explanation": "made up"}
    answer = Answer([("text", ["I"])], stop="refusal")

    def refuse(req):
        if not req.json.get("stream"):
            return Reply(http(200, {**answer.whole("anthropic"), "stop_details": details}))
        *begin, end = answer.messages_events()
        begin[-1] = begin[-1].replace(b'"stop_sequence": null', b'"stop_sequence": null, "stop_details": ' + json.dumps(details).encode())
        return stream(*begin, end)
    wire.providers["anthropic"].script = refuse
    seen = wire.ask(client, "anthropic", how, **conversation(client, None, ("user", "x")))
    assert (seen.text, seen.stop) == ("I", stop_word("refusal", client))
    if client == "anthropic":
        assert seen.details.model_dump() == {**seen.details.model_dump(), **details}


@every_how
def test_refusal_in_words(wire, how):
    """Chat has a text for a refusal apart from the content; Messages has none, so the words become text."""
    def refuse(req):
        if not req.json.get("stream"):
            m = {"role": "assistant", "content": None, "refusal": "I will not."}
            return Reply(http(200, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": Usage().wire("openai"),
                                    "choices": [{"index": 0, "message": m, "finish_reason": "stop"}]}))
        usage = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-a","choices":[],"usage":%s}\n\n'
        return stream(openai_chunk({"role": "assistant", "content": "", "refusal": None}), openai_chunk({"refusal": "I will"}),
                      openai_chunk({"refusal": " not."}), openai_chunk({}, "stop"), usage % json.dumps(Usage().wire("openai")).encode(),
                      b"data: [DONE]\n\n")
    wire.providers["openai"].script = refuse
    seen = wire.ask("anthropic", "openai", how, messages=[{"role": "user", "content": "x"}])
    assert seen.text == "I will not."
    if how != "stream":
        wire.providers["openai"].script = refuse
        r = openai_client(wire.g).chat.completions.create(model="openai" if how == "assembled" else "openai-whole",
                                                          messages=[{"role": "user", "content": "x"}])
        assert (r.choices[0].message.refusal, r.choices[0].message.content) == ("I will not.", None)


@every_client
def test_an_assembled_answer_shows_all_that_the_stream_said(wire, client):
    """What only the provider has a word for, as the vendor's SDK shows it; the stream is a golden case."""
    case = ROOT / "tests/golden/answer" / ("chat-extras" if client == "openai" else "messages-extras")
    wire.providers[client].script = lambda req: stream(case.joinpath("upstream.sse").read_bytes())
    ask = {"messages": [{"role": "user", "content": "x"}]}
    if client == "openai":
        r = openai_client(wire.g).chat.completions.create(model="openai", **ask)
        m = r.choices[0].message
        assert (r.created, r.system_fingerprint, r.service_tier, r.provider) == (1796000001, "fp_1", "flex", "Beta")
        assert r.citations == ["https://a.example", "https://b.example"]
        assert (r.usage.total_tokens, r.usage.cost, r.usage.is_byok, r.usage.prompt_tokens_details.audio_tokens) == (20, 0.000123, False, 0)
        assert (m.content, m.reasoning, len(m.annotations), len(m.reasoning_details)) == ("It is so.", "Let me.", 2, 2)
        assert m.tool_calls[0].function.arguments == '{"a":1}' and m.tool_calls[0].extra_content["google"]["thought_signature"] == "c2ln"
        assert [t.token for t in r.choices[0].logprobs.content] == ["It is", " so."] and r.choices[0].native_finish_reason == "STOP"
        assert not hasattr(r, "obfuscation")
    else:
        r = anthropic_client(wire.g).messages.create(model="anthropic", max_tokens=9, **ask)
        assert (r.stop_reason, r.stop_details.left, r.container.id) == ("max_tokens", 0, "container_1")
        u = r.usage
        assert (u.service_tier, u.inference_geo, u.output_tokens, u.cache_creation.ephemeral_1h_input_tokens) == ("priority", "eu", 15, 20)
        assert u.server_tool_use.code_requests == 1
        assert [b.type for b in r.content] == ["text", "server_tool_use", "code_result", "tool_use"]
        assert r.content[0].citations[0].cited_text == "Hello" and r.content[3].caller.type == "direct"
    assert wire.providers[client].requests[-1].json["stream"] is True


# ---------------------------------------------------------------- JSON schema

class Point(BaseModel):
    x: int
    y: int


@every_target
def test_schema_through_the_openai_sdk(wire, target):
    p = wire.answers(target, Answer([("text", ['{"x": 1,', ' "y": 2}'])]))
    r = openai_client(wire.g).chat.completions.parse(model=target, messages=[{"role": "user", "content": "x"}], response_format=Point)
    assert r.choices[0].message.parsed == Point(x=1, y=2)
    body = p.requests[-1].json
    schema = body["response_format"]["json_schema"]["schema"] if target == "openai" else body["output_config"]["format"]["schema"]
    assert schema["required"] == ["x", "y"] and schema["additionalProperties"] is False
    assert target == "openai" or body["output_config"]["format"]["type"] == "json_schema"


@every_target
def test_schema_through_the_anthropic_sdk(wire, target):
    p = wire.answers(target, Answer([("text", ['{"x": 1,', ' "y": 2}'])]))
    m = anthropic_client(wire.g).messages.parse(model=target, max_tokens=99, messages=[{"role": "user", "content": "x"}], output_format=Point)
    assert m.parsed_output == Point(x=1, y=2)
    body = p.requests[-1].json
    if target == "openai":
        told = body["response_format"]
        assert (told["type"], told["json_schema"]["schema"]["required"]) == ("json_schema", ["x", "y"])
        assert told["json_schema"]["name"]
    else:
        told = body.get("output_config", {}).get("format") or body["output_format"]
        assert told["schema"]["required"] == ["x", "y"]


# ---------------------------------------------------------------- helpers of the SDKs

@every_target
def test_stream_helper_of_openai(wire, target):
    wire.answers(target, Answer([("text", ["Let me ", "see."]), *CALLS], stop="tools"))
    kinds = []
    with openai_client(wire.g).chat.completions.stream(model=target, messages=[{"role": "user", "content": "x"}],
                                                       tools=tools_of("openai", *TOOLS), stream_options={"include_usage": True}) as s:
        for e in s:
            kinds.append(e.type)
        r = s.get_final_completion()
    assert kinds.count("content.delta") >= 2 and kinds.count("content.done") == 1
    assert kinds.count("tool_calls.function.arguments.done") == 3
    assert r.choices[0].message.content == "Let me see."
    assert [(t.id, t.function.name, json.loads(t.function.arguments)) for t in r.choices[0].message.tool_calls] == SEEN_CALLS
    assert r.choices[0].finish_reason == "tool_calls" and r.usage.prompt_tokens == 160


@every_target
def test_stream_helper_of_anthropic(wire, target):
    wire.answers(target, Answer([("think", ["Hm", "."]), ("text", ["Let me ", "see."]), *CALLS], stop="tools"))
    with anthropic_client(wire.g).messages.stream(model=target, max_tokens=99, messages=[{"role": "user", "content": "x"}],
                                                  tools=tools_of("anthropic", *TOOLS)) as s:
        seen = list(s)
        m = s.get_final_message()
    starts = [e.index for e in seen if e.type == "content_block_start"]
    stops = [e.index for e in seen if e.type == "content_block_stop"]
    assert starts == stops == [0, 1, 2, 3, 4]
    assert "".join(e.text for e in seen if e.type == "text") == "Let me see."
    assert seen[0].type == "message_start" and seen[-1].type == "message_stop"
    assert [b.type for b in m.content] == ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    assert [(b.id, b.name, b.input) for b in m.content[2:]] == SEEN_CALLS
    assert m.stop_reason == "tool_use" and m.usage.output_tokens == 30


def test_models_list(wire):
    names = [r["model"] for r in wire.g.config["routes"]]
    assert [m.id for m in openai_client(wire.g).models.list()] == names
    listed = list(anthropic_client(wire.g).models.list())
    assert [m.id for m in listed] == names
    assert all(m.type == "model" and m.display_name == m.id and m.created_at.year == 1970 for m in listed)


# ---------------------------------------------------------------- errors

def error_of(vendor, g, model="r", how="stream", **kw):
    """The exception that the vendor's SDK raises."""
    sdk = openai if vendor == "openai" else anthropic
    with pytest.raises(sdk.APIError) as caught:
        (ask_openai if vendor == "openai" else ask_anthropic)(g, model, how, messages=[{"role": "user", "content": "x"}], **kw)
    return caught.value


# status, type and code at the provider -> class, status, type (OpenAI), code (OpenAI), type (Anthropic)
ERRORS = [
    ("client", 400, "invalid_request_error", "invalid_value", "BadRequestError", 400, "invalid_request_error", "invalid_value", "invalid_request_error"),
    ("context", 400, "invalid_request_error", "context_length_exceeded", "BadRequestError", 400, "invalid_request_error", "context_length_exceeded",
     "invalid_request_error"),
    ("fault", 500, "server_error", None, "InternalServerError", 502, "server_error", "provider_error", "api_error"),
    ("key", 401, "invalid_request_error", "invalid_api_key", "InternalServerError", 502, "provider_auth_error", "provider_auth_error", "api_error"),
    ("rate", 429, "requests", "rate_limit_exceeded", "RateLimitError", 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
    ("quota", 429, "insufficient_quota", "insufficient_quota", "RateLimitError", 429, "insufficient_quota", "insufficient_quota", "rate_limit_error"),
]
MESSAGES_ERRORS = {
    "client": (400, "invalid_request_error", "messages: at least one message is required"),
    "context": (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "fault": (500, "api_error", "Internal server error"),
    "key": (401, "authentication_error", "invalid x-api-key"),
    "rate": (429, "rate_limit_error", "This request would exceed your rate limit"),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
}


@every_target
@pytest.mark.parametrize("row", ERRORS, ids=lambda r: r[0])
@every_client
def test_error_classes(world, client, target, row):
    word, status, kind, code, name, told, openai_type, openai_code, anthropic_type = row
    message = "made up"
    headers = [("retry-after", "7")] if word == "rate" else []
    if target == "anthropic":
        status, kind, message = MESSAGES_ERRORS[word]
    g, _ = world.chain([Reply(http(status, error_json(target, status, kind, message, code), headers=headers))], dialects=[target],
                       route={"retries": 0})
    for how in ("stream", "assembled"):
        e = error_of(client, g, how=how)
        assert type(e).__name__ == name and e.status_code == told, repr(e)
        assert e.response.headers["x-ringmain-request-id"].startswith("req_")
        assert e.response.headers["x-ringmain-trail"].startswith("a/m-a;")
        if client == "openai":
            assert e.body["type"] == openai_type
            assert e.code == openai_code or (word == "client" and target == "anthropic")
        else:
            assert e.body["type"] == "error" and e.body["error"]["type"] == anthropic_type
            assert e.body["request_id"] == e.response.headers["x-ringmain-request-id"]
        if word in ("client", "context"):
            assert message in str(e)
        if word == "rate":
            assert 7 <= int(e.response.headers["retry-after"]) <= 20
        if word in ("key", "quota"):
            assert e.response.headers["x-should-retry"] == "false"
            assert "SECRET" not in str(e)


@every_client
def test_all_providers_red(world, client):
    busy = Reply(http(503, error_json("openai", 503)))
    g, _ = world.chain([busy], [Reply(http(529, error_json("anthropic", 529, "overloaded_error")))], dialects=["openai", "anthropic"])
    e = error_of(client, g)
    error = e.body if client == "openai" else e.body["error"]
    assert e.status_code == (503 if client == "openai" else 529)
    assert type(e).__name__ == ("InternalServerError" if client == "openai" else "OverloadedError")
    assert [(a["provider"], a["outcome"], a["status"]) for a in error["attempts"]] == [("a", "overloaded", 503), ("b", "overloaded", 529)]
    assert int(e.response.headers["retry-after"]) >= 1
    assert error["type"] == ("upstream_unavailable" if client == "openai" else "overloaded_error")
    assert client == "anthropic" or e.code == "all_providers_unavailable"


@every_client
def test_unknown_model_and_wrong_key(wire, world, client):
    e = error_of(client, wire.g, model="openia")
    assert type(e).__name__ == "NotFoundError" and "openai" in str(e)
    p = world.provider(good("openai"))
    g = world.gateway({"providers": {"a": provider_conf(p.port)}, "routes": [{"model": "r", "order": ["a"]}],
                       "client_keys": [{"name": "team", "sha256": hashlib.sha256(b"sk-of-the-client").hexdigest()}]})
    assert (ask_openai if client == "openai" else ask_anthropic)(g, "r", "assembled", messages=[{"role": "user", "content": "x"}]).text
    make = openai_client if client == "openai" else anthropic_client
    e = error_of(client, g, client=make(g, api_key="sk-wrong"))
    assert type(e).__name__ == "AuthenticationError" and e.status_code == 401
    assert len(p.requests) == 1


def broken_stream(target, how):
    """A good beginning, then an error event or the end of the connection."""
    if target == "openai":
        begin = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({"content": "Once"})]
        error = b'data: {"error":{"message":"made up","type":"server_error","code":null,"param":null}}\n\n'
    else:
        begin = [anthropic_event("message_start", {"message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
                                 "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
                 anthropic_event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
                 anthropic_event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Once"}})]
        error = anthropic_event("error", {"error": {"type": "overloaded_error", "message": "Overloaded"}})
    return stream(*begin, *([error] if how == "error" else []), last=how == "error", end="keep" if how == "error" else "close")


@every_target
@pytest.mark.parametrize("how", ["error", "cut"])
@every_client
def test_an_error_in_the_stream_raises(world, client, target, how):
    g, _ = world.chain([broken_stream(target, how)], dialects=[target])
    text = ""
    sdk = openai if client == "openai" else anthropic
    with pytest.raises(sdk.APIError) as caught:
        if client == "openai":
            for c in openai_client(g).chat.completions.create(model="r", stream=True, messages=[{"role": "user", "content": "x"}]):
                text += c.choices[0].delta.content or ""
                assert c.choices[0].finish_reason is None
        else:
            with anthropic_client(g).messages.stream(model="r", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as s:
                for t in s.text_stream:
                    text += t
    assert text == "Once"
    assert not isinstance(caught.value, sdk.APIConnectionError), "the error must be told in the dialect, not by a broken connection"


# ---------------------------------------------------------------- failover seen through the SDKs

def first_failures(d):
    head = openai_chunk({"role": "assistant", "content": ""}) if d == "openai" else anthropic_event("message_start", {
        "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
                    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}})
    error = (b'data: {"error":{"message":"over capacity","type":"server_error","code":503}}\n\n' if d == "openai"
             else anthropic_event("error", {"error": {"type": "overloaded_error", "message": "Overloaded"}}))
    return {"503": Reply(http(503, error_json(d, 503))), "hang": stream(head, last=False, end="hang"),
            "error in 200": stream(head, error), "cut": stream(head, last=False, end="close")}


@every_how
@pytest.mark.parametrize("fault", ["503", "hang", "error in 200", "cut"])
@pytest.mark.parametrize("first, second", [("openai", "anthropic"), ("anthropic", "openai")])
@every_client
def test_failover_is_not_seen(world, client, first, second, fault, how):
    g, (a, b) = world.chain([first_failures(first)[fault]], Answer([("text", ["From", " B."]), *CALLS], stop="tools").script(second),
                            dialects=[first, second], links={"a": {"ttft_budget_ms": 200, "total_budget_ms": 250}},
                            route={"upstream_stream": "off" if how == "whole" else "auto", "retries": 0})
    seen = (ask_openai if client == "openai" else ask_anthropic)(g, "r", how, messages=[{"role": "user", "content": "x"}],
                                                                 tools=tools_of(client, *TOOLS))
    assert (seen.text, seen.tools, seen.stop) == ("From B.", SEEN_CALLS, stop_word("tools", client))
    assert seen.headers["x-ringmain-provider"] == "b" and seen.headers["x-ringmain-attempts"] == "2"
    assert [t[0] for t in seen.trail()] == ["a/m-a", "b/m-b"] and seen.trail()[1][1] == "ok"
    assert len(a.requests) == 1 and len(b.requests) == 1


# ---------------------------------------------------------------- retries of the SDKs

@every_client
def test_sdk_retries_when_it_may(world, client):
    """Two reds, then good: the SDK repeats by itself, and the gateway's hint says how long it waits."""
    busy = Reply(http(429, error_json("openai", 429, "requests", code="rate_limit_exceeded"), headers=[("retry-after", "1")]))
    g, (a,) = world.chain(lambda req: busy if req.n == 1 else good("openai")(req), route={"retries": 0})
    make = openai_client if client == "openai" else anthropic_client
    seen = (ask_openai if client == "openai" else ask_anthropic)(g, "r", "assembled", client=make(g, max_retries=2),
                                                                 messages=[{"role": "user", "content": "x"}])
    assert seen.text == "Hello from B."
    assert len(a.requests) == 2
    assert a.requests[1].arrived - a.requests[0].arrived > 0.9


@every_client
def test_sdk_does_not_retry_what_cannot_work(world, client):
    g, (a,) = world.chain([Reply(http(401, error_json("openai", 401, "invalid_request_error", code="invalid_api_key")))])
    make = openai_client if client == "openai" else anthropic_client
    e = error_of(client, g, client=make(g, max_retries=2))
    assert e.status_code == 502 and e.response.headers["x-should-retry"] == "false"
    assert len(a.requests) == 1


# ---------------------------------------------------------------- many at once, and leaving

@every_target
def test_asynchronous_clients_at_once(wire, target):
    wire.providers[target].script = lambda req: Answer([("text", ["You said ", req.json["messages"][-1]["content"]])]).script(target)(req)
    url = f"http://127.0.0.1:{wire.g.port}"

    async def chat(client, i):
        stream = await client.chat.completions.create(model=target, stream=True, messages=[{"role": "user", "content": f"chat {i}"}])
        return "".join([c.choices[0].delta.content or "" async for c in stream])

    async def message(client, i):
        m = await client.messages.create(model=target, max_tokens=9, messages=[{"role": "user", "content": f"message {i}"}])
        return m.content[0].text

    async def run():
        a = openai.AsyncOpenAI(api_key="x", base_url=url + "/v1", max_retries=0, http_client=openai.DefaultAsyncHttpxClient(trust_env=False))
        b = anthropic.AsyncAnthropic(api_key="x", base_url=url, max_retries=0, http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False))
        async with a, b:
            return await asyncio.gather(*[chat(a, i) if i % 2 else message(b, i) for i in range(40)])
    assert asyncio.run(run()) == [f"You said {'chat' if i % 2 else 'message'} {i}" for i in range(40)]


@every_target
@every_client
def test_leaving_in_the_middle_closes_the_provider(world, client, target):
    endless = stream(*events(target, ["Once", " upon"], done=False, usage=(1, 1), **({"finish": None} if target == "openai" else {"stop": None})),
                     last=False, end="hang")
    g, (a,) = world.chain([endless], dialects=[target])
    if client == "openai":
        with openai_client(g).chat.completions.create(model="r", stream=True, messages=[{"role": "user", "content": "x"}]) as s:
            assert next(c.choices[0].delta.content for c in s if c.choices[0].delta.content) == "Once"
    else:
        with anthropic_client(g).messages.stream(model="r", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as s:
            assert next(iter(s.text_stream)) == "Once"
    wait_for(lambda: a.requests[0].closed_at, what="the provider's connection to be closed")
    wait_for(lambda: g.access() and g.access()[-1]["outcome"] == "client_cancelled", what="the access line")
