"""Node's own HTTP client and stream reader (undici, as the JavaScript SDKs use it) against the real binary."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness import Reply, error_json, good, http, openai_events, provider_conf, stream, wait_for


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_smoke(world):
    red = world.provider([Reply(http(503, error_json("openai", 503)))])
    green = world.provider(good("anthropic", "Grüße from B. \U0001f600"))
    endless = world.provider([stream(*list(openai_events(["x"], finish=None, usage=None, done=False)), last=False, end="hang")])
    g = world.gateway({"providers": {"a": provider_conf(red.port), "b": provider_conf(green.port, "anthropic"), "c": provider_conf(endless.port)},
                       "routes": [{"model": "r", "order": ["a", "b"], "breaker": "off"}, {"model": "endless", "order": ["c"]}]})
    script = pathlib.Path(__file__).with_name("node_smoke.mjs")
    done = subprocess.run(["node", str(script), f"http://127.0.0.1:{g.port}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    text = "Grüße from B. \U0001f600"
    assert seen["chat"] == {"status": 200, "type": seen["chat"]["type"], "provider": "b", "text": text, "finish": "stop", "last": "[DONE]"}
    assert seen["chat"]["type"].startswith("text/event-stream")
    assert seen["messages"] == {"status": 200, "text": text, "stop": "end_turn", "last": "message_stop"}
    assert seen["whole"]["status"] == 200 and seen["whole"]["body"]["choices"][0]["message"]["content"] == text
    assert seen["unknown"]["status"] == 404 and seen["unknown"]["body"]["error"]["code"] == "model_not_found"
    assert [m["id"] for m in seen["models"]["body"]["data"]] == ["r", "endless"]
    assert seen["many"] == [text] * 20
    assert seen["left"] == 200
    wait_for(lambda: endless.requests[-1].closed_at, what="the abandoned upstream to be closed")
    assert green.requests[0].json["messages"][0]["content"] == "Grüße 世界"
