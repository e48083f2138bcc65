"""curl and h2load against the real binary: what other HTTP clients do on the wire."""
import concurrent.futures
import json
import re
import shutil
import subprocess

import pytest

from harness import LAST, SSE_HEAD, Reply, chunk, good, openai_events, stream, wait_for

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

JSON = ["-H", "content-type: application/json"]


def body_of(**more):
    return json.dumps({"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}], **more})


def curl(*args, stdin=None, bound=30):
    done = subprocess.run(["curl", "-q", "-sS", "--noproxy", "*", *args], input=stdin, capture_output=True, timeout=bound)
    assert done.returncode == 0, done.stderr.decode()
    return done


def url(g, path="/v1/chat/completions"):
    return f"http://127.0.0.1:{g.port}{path}"


def split(raw):
    """Status line, headers and body of `curl -i` output; interim answers are left out."""
    head, body = raw.split(b"\r\n\r\n", 1)
    while head.startswith(b"HTTP/1.1 1"):
        head, body = body.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    return lines[0], {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}, body


def test_events_arrive_one_by_one(world):
    """The provider says a word and then nothing more: curl -N must show the word while the stream is open."""
    g, (a,) = world.chain([stream(*openai_events(["first"], finish=None, usage=None, done=False), last=False, end="hang")])
    p = subprocess.Popen(["curl", "-q", "-sSN", "--noproxy", "*", *JSON, "-d", body_of(), url(g)], stdout=subprocess.PIPE)
    lines = iter(p.stdout.readline, b"")
    line = next(x for x in lines if b"first" in x)
    assert json.loads(line[6:])["choices"][0]["delta"]["content"] == "first"
    assert a.requests[0].closed_at is None
    p.terminate()
    p.wait(10)
    p.stdout.close()
    wait_for(lambda: a.requests[0].closed_at, what="the upstream to be closed")


@pytest.mark.parametrize("is_stream", [True, False])
def test_http_1_0(world, is_stream):
    g, _ = world.chain(good("openai"))
    status, headers, body = split(curl("-i", "--http1.0", *JSON, "-d", body_of(stream=is_stream), url(g)).stdout)
    assert status.split(" ")[1] == "200"
    assert "transfer-encoding" not in headers
    if is_stream:
        assert "content-length" not in headers
        assert body.endswith(b"data: [DONE]\n\n") and b'"Hello"' in body
    else:
        assert int(headers["content-length"]) == len(body)
        assert json.loads(body)["choices"][0]["message"]["content"] == "Hello from B."


def test_large_body_with_expect(world):
    """curl would wait a minute for the 100 before it sends the body."""
    g, (a,) = world.chain(good("openai"))
    big = body_of(messages=[{"role": "user", "content": "ü\u2028\"\\" * 300_000}])
    assert len(big) > 2_000_000
    done = curl("-v", *JSON, "-H", "Expect: 100-continue", "--expect100-timeout", "60", "--data-binary", "@-", url(g), stdin=big.encode(), bound=40)
    assert b"< HTTP/1.1 100" in done.stderr
    assert done.stdout.endswith(b"data: [DONE]\n\n")
    assert a.requests[0].json["messages"] == json.loads(big)["messages"]


def test_too_large_a_body_is_refused_before_it_is_sent(world):
    g, (a,) = world.chain(good("openai"), config={"limits": {"body_bytes": 100_000}})
    big = body_of(messages=[{"role": "user", "content": "x" * 1_500_000}])
    done = curl("-v", *JSON, "-H", "Expect: 100-continue", "--expect100-timeout", "60", "--data-binary", "@-", url(g), stdin=big.encode(), bound=40)
    assert b"< HTTP/1.1 413" in done.stderr and b"< HTTP/1.1 100" not in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "request_too_large"
    assert a.requests == []


def test_chunked_upload(world):
    g, (a,) = world.chain(good("openai"))
    big = body_of(messages=[{"role": "user", "content": "x" * 300_000}])
    done = curl(*JSON, "-H", "Transfer-Encoding: chunked", "--data-binary", "@-", url(g), stdin=big.encode())
    assert done.stdout.endswith(b"data: [DONE]\n\n")
    assert a.requests[0].json["messages"] == json.loads(big)["messages"]
    assert a.requests[0].headers["content-length"] == str(len(a.requests[0].body))


def test_head(world):
    g, (a,) = world.chain(good("openai"))
    for path in ("/healthz", "/v1/models"):
        status, asked, body = split(curl("-I", url(g, path)).stdout)
        _, got, whole = split(curl("-i", url(g, path)).stdout)
        assert status.split(" ")[1] == "200" and body == b""
        assert int(asked["content-length"]) == int(got["content-length"]) == len(whole)
        assert asked["content-type"] == got["content-type"]
    status, headers, body = split(curl("-I", url(g)).stdout)
    assert status.split(" ")[1] == "405" and headers["allow"] == "POST" and body == b""
    assert a.requests == []


def test_one_connection_for_many_requests(world):
    g, _ = world.chain(good("openai"))
    many = []
    for i in range(6):
        many += ["--next", "-sS"] if i else []
        many += [*JSON, "-d", body_of(stream=i % 2 == 0), "-w", "\nconnects=%{num_connects} status=%{response_code}\n", url(g)]
    out = curl(*many).stdout.decode()
    assert re.findall(r"connects=(\d) status=(\d+)", out) == [("1", "200")] + [("0", "200")] * 5


def test_a_burst_of_curls(world):
    g, (a,) = world.chain(good("anthropic"), dialects=["anthropic"], config={"workers": 2})
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda i: curl("-i", *JSON, "-d", body_of(stream=i % 2 == 0), url(g)).stdout, range(48)))
    for i, raw in enumerate(done):
        status, headers, body = split(raw)
        assert status.split(" ")[1] == "200" and headers["x-ringmain-provider"] == "a"
        assert (b'" B."' in body and body.endswith(b"[DONE]\n\n")) if i % 2 == 0 else b"Hello from B." in body
    assert len(a.requests) == 48


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load is not installed")
@pytest.mark.parametrize("is_stream", [True, False])
def test_h2load(world, tmp_path, is_stream):
    answer = Reply(SSE_HEAD, *[chunk(e) for e in openai_events(["Hello", " from", " A."])], LAST)
    g, (a,) = world.chain([answer], config={"workers": 2})
    body = tmp_path / "body.json"
    body.write_text(body_of(stream=is_stream))
    done = subprocess.run(["h2load", "--h1", "-n", "600", "-c", "16", "-t", "1", "-d", str(body), "-H", "content-type: application/json", url(g)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "600 total, 600 started, 600 done, 600 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout
    assert "status codes: 600 2xx" in done.stdout
    assert len(a.requests) == 600
    assert a.connections <= 40, "upstream connections are used again"
