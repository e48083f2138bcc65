"""The table of `make bench`, from figures made up: ratios, marks, and what is said where something was not measured."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import table  # noqa: E402

MACHINE = {"when": "2026-11-30 12:00", "commit": "abc1234", "cores": 2, "cpu": "Some CPU", "kernel": "6.1", "load_before": 0.1, "load_after": 0.2}


def kit(ours, haproxy=20.0, nginx=30.0):
    figures = lambda us: {"W1": {"cpu_us_per_req": us, "errors": 0}, "W1r": {"cpu_us_per_req": us, "errors": 0}}
    return {"medians": {"ringmain-direct": figures(ours), "haproxy": figures(haproxy), "nginx": figures(nginx)},
            "versions": {"nginx": "nginx version: nginx/1.22.1", "haproxy": "HAProxy version 2.6.12-1 2023/01/01 - https://haproxy.org/"}}


def made(**parts):
    return table.markdown({"machine": MACHINE, "quick": False, "rounds": 3, "seconds": 4, "parts": parts, "failed": {}})


def row(text, start):
    line = next(x for x in text.splitlines() if x.startswith(f"| {start}"))
    return [c.strip() for c in line.strip("|").split("|")]


def test_must_aim_and_missed():
    for ours, w1, w1r in ((15, "aim", "aim"), (16, "aim", "aim"), (16.2, "must", "must"), (20, "must", "must"), (20.1, "**missed**", "**missed**")):
        text = made(kit=kit(ours))
        assert row(text, "W1:")[-1] == w1 and row(text, "W1r")[-1] == w1r, (ours, text)
        assert ("Every must is kept" in text) == (w1 != "**missed**")
    assert row(made(kit=kit(15, nginx=18)), "W1:")[-1] == "must"  # within HAProxy's share, not within nginx's
    cells = row(made(kit=kit(15)), "W1:")
    assert cells[2:5] == ["30.0", "20.0", "15.0"] and cells[6] == "0.75" and cells[7] == "1.00 × HAProxy"


def test_the_machine_and_who_was_compared():
    text = made(kit=kit(15))
    assert "commit abc1234, 2 cores of Some CPU, Linux 6.1; nginx/1.22.1; HAProxy 2.6.12-1." in text
    assert "Medians of 3 rounds of 4 s" in text and "others worked" not in text


def test_errors_are_seen():
    figures = kit(15)
    figures["medians"]["ringmain-direct"]["W1"]["errors"] = 7
    assert row(made(kit=figures), "W1:")[0].endswith("(7 errors)")


def test_without_a_peer_nothing_is_judged():
    figures = kit(15)
    del figures["medians"]["haproxy"]
    cells = row(made(kit=figures), "W1:")
    assert cells[3] == "–" and cells[6] == "–" and cells[-1] == "–"


def test_latency_without_a_wait_is_judged_by_each_percentile():
    part = {w: {"direct": {"p50_us": a, "p99_us": b, "errors": 0}, "haproxy": {"p50_us": 100.0, "p99_us": 300.0, "errors": 0}} for w, a, b in (("L", 99, 361), ("LS", 119, 300))}
    text = made(latency=part)
    verdict = lambda w, q: next(x for x in text.splitlines() if x.startswith(f"| {w}:") and f", {q} |" in x).split("|")[-2].strip()
    assert [verdict(w, q) for w in ("L", "LS") for q in ("p50", "p99")] == ["aim", "**missed**", "must", "aim"]


def test_translation_against_the_same_dialect():
    part = lambda us: {w: {"same": {k: 10.0, "errors": 0}, "translated": {k: us, "errors": 0}} for w, k in (("W1", "cpu_us"), ("W3p", "cpu_ns"))}
    assert row(made(translation=part(14.9)), "W1, OpenAI to Anthropic: 1.49")[-1] == "aim"
    assert row(made(translation=part(15.1)), "W1, OpenAI to Anthropic: 1.51")[-1] == "aim missed"


def test_counts_are_read_as_the_tests_print_them():
    lines = ["2 KB request, 1.5 KB JSON answer, user instructions: loop 19,500.12, ledger and others 16,000", "a streamed chunk, user instructions: loop 905, others 3",
             "a call, the loop's system calls {'read': 2.0, 'write': 2.0, 'wait': 2.0}: all 6",
             "a call among 64, the loop's system calls {'read': 2.0, 'write': 2.01}: all 4.05"]
    text = made(counts={"passed": True, "lines": lines})
    assert row(text, "W1: user instructions of the loop")[-1] == "must"
    assert row(text, "W3p: user instructions")[-1] == "**missed**"
    assert row(text, "system calls a request, among 64")[4] == "4.05" and row(text, "system calls a request, among 64")[-1] == "aim"
    assert row(text, "system calls a request, alone")[4] == "6.00" and row(text, "system calls a request, alone")[-1] == "–"


def test_what_could_not_be_measured_is_said():
    text = table.markdown({"machine": {**MACHINE, "load_before": 5.0}, "quick": True, "rounds": 1, "seconds": 0.6, "parts": {}, "failed": {"tls": "no haproxy"}})
    assert "Not measured: tls (no haproxy)." in text and "quick: rough figures" in text and "others worked on the machine" in text
