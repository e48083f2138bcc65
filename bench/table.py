"""From figures to the table: one row a figure, the ratio to HAProxy, what was asked for, and whether it is kept."""
import re

MISSED, MUST, AIM, NONE = "**missed**", "must", "aim", ""
OURS = "ringmain-direct"
NAMES = {"nginx": "nginx", "haproxy": "HAProxy", OURS: "Ringmain", "ringmain": "Ringmain, as shipped"}


def number(v):
    if v is None:
        return "–"
    if abs(v) >= 1000:
        return f"{v:,.0f}"
    return f"{v:.1f}" if abs(v) >= 10 else f"{v:.2f}"


class Row:
    """values: {proxy: figure}. must and aim: [(bound, text)]; all bounds of a list have to hold. ours: whose figure is judged."""

    def __init__(self, what, unit, values, must=(), aim=(), ours=OURS, against="haproxy", errors=0):
        self.what, self.unit, self.values, self.errors = what, unit, values, errors
        self.mine, self.base = values.get(ours), values.get(against)
        self.must, self.aim = list(must), list(aim)

    def verdict(self):
        if self.mine is None or not self.must + self.aim or None in [b for b, _ in self.must + self.aim]:
            return NONE
        holds = lambda bounds: all(self.mine <= b for b, _ in bounds)
        if self.must and not holds(self.must):
            return MISSED
        if self.aim and holds(self.aim):
            return AIM
        return MUST if self.must else "aim missed"

    def text(self):
        asked = lambda bounds: ", ".join(t for _, t in bounds)
        ratio = self.mine / self.base if self.mine is not None and self.base and self.base > 0 else None
        cells = [self.what + (f" ({self.errors:.0f} errors)" if self.errors else ""), self.unit, *(number(self.values.get(n)) for n in NAMES),
                 "–" if ratio is None else f"{ratio:.2f}", asked(self.must) or "–", asked(self.aim) or "–", self.verdict() or "–"]
        return "| " + " | ".join(cells) + " |"


def times(base, factor, name):
    return (None if base is None else base * factor, f"{factor:.2f} × {name}")


def at_most(bound, text):
    return (bound, text)


def digger(medians):
    def values(*path):
        out = {}
        for name in NAMES:
            v = medians.get(name, {})
            for p in path:
                v = v.get(p) if isinstance(v, dict) else None
            if v is not None:
                out[name] = v
        return out
    return values


def ratio_row(what, unit, v, must, aim, aim_nginx=None, errors=0):
    """Must and aim as multiples of HAProxy's figure; aim_nginx: of nginx's besides."""
    aims = [times(v.get("haproxy"), aim, "HAProxy")] if aim else []
    aims += [times(v.get("nginx"), aim_nginx, "nginx")] if aim_nginx else []
    return Row(what, unit, v, [times(v.get("haproxy"), must, "HAProxy")] if must else [], aims, errors=errors)


def errors_of(v):
    return sum(v.values())


def kit_rows(part):
    v = digger(part["medians"])
    error = lambda w: errors_of(v(w, "errors"))
    cpu, each = "CPU µs a request", "CPU ns a chunk"
    yield ratio_row("W1: 2 KB request, 1.5 KB answer", cpu, v("W1", "cpu_us_per_req"), 1.0, 0.80, 0.70, error("W1"))
    yield ratio_row("W1r: the same at a set rate", cpu, v("W1r", "cpu_us_per_req"), 1.0, 0.80, None, error("W1r"))
    yield ratio_row("W2: 60 KB request", cpu, v("W2", "cpu_us_per_req"), 1.0, 0.80, 1.0, error("W2"))
    yield ratio_row("W3p: paced stream", each, v("W3p", "cpu_ns_per_chunk"), 1.0, 0.80, None, error("W3p"))
    yield ratio_row("W3: stream with backlog", each, v("W3", "cpu_ns_per_chunk"), 1.05, 0.95, None, error("W3"))
    for w, what in (("L", "L: added latency"), ("LS", "LS: added time to first token")):
        for q in ("p50", "p99"):
            yield ratio_row(f"{what}, {q}", "µs", v(w, f"added_{q}_us"), 1.2, 1.0, None, error(w))
    for n in ("1000", "5000", "9500"):
        rss = v("W4", n, "rss_bytes_per_stream")
        if rss:
            yield Row(f"W4: {int(n):,} streams", "resident bytes a stream", rss, [at_most(4096, "4 KB")], [at_most(1536, "1.5 KB")], errors=errors_of(v("W4", n, "errors")))
            yield Row(f"W4: {int(n):,} streams", each, v("W4", n, "cpu_ns_per_chunk"))
    yield Row("idle memory", "MB", v("W4", "idle_rss_mb"), [at_most(8, "8 MB")], [at_most(4, "4 MB")])
    limited = v("W5", "429", "cpu_us_per_req")
    yield Row("W5: primary answers 429", cpu, limited, [times(limited.get("nginx"), 1.0, "nginx")], [times(limited.get("nginx"), 0.8, "nginx")],
              against="nginx", errors=errors_of(v("W5", "429", "errors")))
    for q, must, aim in (("p50", 1000, 300), ("p99", 5000, 2500)):
        yield Row(f"W5: primary hangs, time over the budget, {q} (in steps of 2,097)", "µs", v("W5", "hang", f"over_budget_{q}_us"),
                  [at_most(must, f"{must / 1000:g} ms")], [at_most(aim, f"{aim / 1000:g} ms")], against="nginx",
                  errors=errors_of(v("W5", "hang", "errors")))


def latency_rows(part):
    for w, what in (("L", "L: added latency"), ("LS", "LS: added time to first token")):
        for q in ("p50", "p99"):
            yield ratio_row(f"{what}, no wait at the provider, {q}", "µs", renamed(part[w], f"{q}_us"), 1.2, 1.0, None, sum(f["errors"] for f in part[w].values()))


def renamed(by_proxy, figure):
    return {OURS if n.startswith("direct") else n: f[figure] for n, f in by_proxy.items()}


def run_row(what, unit, by_proxy, figure, must=None, aim=None):
    return ratio_row(what, unit, renamed(by_proxy, figure), must, aim, None, sum(f["errors"] for f in by_proxy.values()))


def run_rows(part, suffix, must=None, aim=None):
    """The rows of a part whose runs are named W1… or W3p…; those of W1 first."""
    for run, by_proxy in sorted(part.items(), key=lambda x: x[0].startswith("W3p")):
        if run.startswith("W1"):
            yield run_row(f"{run}{suffix}", "CPU µs a request", by_proxy, "cpu_us", must, aim)
        elif run.startswith("W3p"):
            yield run_row(f"{run}{suffix}", "CPU ns a chunk", by_proxy, "cpu_ns", must, aim)


def connection_rows(part):
    name = lambda run: run.replace(" ", ", ") + (" client" if run.endswith(" 1") else " clients")
    yield from run_rows({name(run): v for run, v in part.items()}, "")


def tls_rows(part):
    yield from run_rows(part, ", TLS to the provider")
    if "W4" in part:
        yield Row("W4, TLS to the provider: 1,000 streams", "resident bytes a stream", renamed(part["W4"], "rss_bytes"), [at_most(12288, "12 KB")],
                  [at_most(8192, "8 KB")], errors=sum(f["errors"] for f in part["W4"].values()))


def translation_rows(part):
    for w, figure, unit in (("W1", "cpu_us", "CPU µs a request"), ("W3p", "cpu_ns", "CPU ns a chunk")):
        same, translated = part[w]["same"][figure], part[w]["translated"][figure]
        errors = part[w]["same"]["errors"] + part[w]["translated"]["errors"]
        yield Row(f"{w}, OpenAI to OpenAI, our own provider", unit, {OURS: same}, errors=part[w]["same"]["errors"])
        yield Row(f"{w}, OpenAI to Anthropic: {translated / same:.2f} × that", unit, {OURS: translated}, aim=[(same * 1.5, "1.50 × same dialect")], errors=errors)


def worker_rows(part):
    for name, figures in part["W1"].items():
        label = name.replace("-", " ")
        yield Row(f"W1, {label}", "requests/s", {OURS: figures["rps"]}, errors=figures["errors"])
        yield Row(f"W1, {label}", "CPU µs a request", {OURS: figures["cpu_us"]})


def leaving_rows(part):
    v = {OURS if n == "direct" else n: f["ms"] for n, f in part.items()}
    yield Row("client leaves: last upstream closed after", "ms", v, [at_most(1000, "1 s")], [at_most(50, "same loop turn")])


def hang_rows(part):
    for q, must, aim in (("p50", 1000, 300), ("p99", 5000, 2500)):
        yield Row(f"primary hangs, time over the budget, one client, {q}", "µs", renamed(part, f"{q}_us"), [at_most(must, f"{must / 1000:g} ms")],
                  [at_most(aim, f"{aim / 1000:g} ms")], against="nginx", errors=sum(f["errors"] for f in part.values()))


def size_rows(part):
    yield Row("binary, stripped", "MB", {OURS: part["binary_mb"]}, [at_most(6, "6 MB")], [at_most(2, "2 MB")])
    yield Row("just started, resident", "MB", {OURS: part["idle_mb"]}, [at_most(8, "8 MB")], [at_most(4, "4 MB")])


def burst_rows(part):
    before = part["before_mb"]
    yield Row(f"after a burst of requests of 1 MB (before {before:.1f}, at most {part['most_mb']:.1f})", "resident MB", {OURS: part["after_mb"]},
              [at_most(before * 1.5, "1.50 × before")], errors=part["errors"])


# What tests/counts prints: the line's beginning, the figure's name in it, what it is, must, aim.
COUNTED = [
    ("2 KB request, 1.5 KB JSON answer, user instructions", "loop", "W1: user instructions of the loop, a request", 20000, 13000),
    ("2 KB request, 1.5 KB JSON answer, user instructions", "ledger and others", "W1: user instructions of the other threads, a request", 20000, 16000),
    ("2 KB request, prose and code", "loop", "W1, prose and code: user instructions of the loop, a request", 20000, 13000),
    ("60 KB request, a conversation", "loop", "W2: user instructions of the loop, a request", 130000, 95000),
    ("a streamed chunk, user instructions", "loop", "W3p: user instructions of the loop, a chunk", 900, 600),
    ("a call among 64, the loop's system calls", "all", "system calls a request, among 64 as in W1", 4.5, 4.1),
    ("a call, the loop's system calls", "all", "system calls a request, alone", None, None),
    ("a chunk among those of 16 streams", "all", "system calls a chunk, among 16", 3, 2),
    ("a chunk, the loop's system calls", "all", "system calls a chunk, alone", 3, 2),
    ("an open, silent stream, resident KB", "each", "an open, silent stream, KB", 4, 1.5),
]


def count_rows(part):
    for start, figure, what, must, aim in COUNTED:
        line = next((x for x in part["lines"] if x.startswith(start)), None)
        found = line and re.search(rf"(?:: |, ){figure} ([\d,.]+)", re.sub(r"\{[^}]*\}", "", line))
        if found:
            value = float(found.group(1).strip(",.").replace(",", ""))
            text = lambda b: f"{b:,}"
            yield Row(what, "exact", {OURS: value}, [at_most(must, text(must))] if must else [], [at_most(aim, text(aim))] if aim else [])


ROWS = {"kit": kit_rows, "latency": latency_rows, "connections": connection_rows, "unasked": lambda p: run_rows(p, ", usage not asked for", 1.0, 0.80),
        "tls": tls_rows, "translation": translation_rows, "workers": worker_rows, "leaving": leaving_rows, "hang": hang_rows, "size": size_rows, "burst": burst_rows, "counts": count_rows}


def rows(result):
    for part, make in ROWS.items():
        if part in result["parts"]:
            yield from make(result["parts"][part])


def heading(result):
    m = result["machine"]
    versions = result["parts"].get("kit", {}).get("versions", {})
    peers = "; ".join(re.sub(r"^(nginx version: |(HAProxy) version )", r"\2 ", versions[n]).strip().split(" 20")[0] for n in ("nginx", "haproxy") if n in versions)
    yield f"{m['when']}, commit {m['commit']}, {m['cores']} cores of {m['cpu']}, Linux {m['kernel']}" + (f"; {peers}" if peers else "") + "."
    yield f"Medians of {result['rounds']} round{'s' if result['rounds'] > 1 else ''} of {result['seconds']:g} s" + \
        (", **quick: rough figures**" if result["quick"] else "") + f". Load average {m['load_before']:.1f} before, {m['load_after']:.1f} after" + \
        (": **others worked on the machine**, so take ratios and no single figure." if m["load_before"] > 0.7 else ".")
    for name, why in result["failed"].items():
        yield f"\nNot measured: {name} ({why})."


def markdown(result):
    made = list(rows(result))
    lines = list(heading(result))
    lines += ["", "| workload | figure | " + " | ".join(NAMES.values()) + " | ratio | must | aim | kept |", "| --- " * (len(NAMES) + 6) + "|"]
    lines += [r.text() for r in made]
    missed = [r for r in made if r.verdict() == MISSED]
    lines += ["", "Ratio: Ringmain to HAProxy; in W5, to nginx. " + ("Every must is kept." if not missed else f"{len(missed)} of "
              f"{sum(bool(r.must) for r in made)} musts are missed: " + "; ".join(r.what for r in missed) + ".")]
    return "\n".join(lines) + "\n"
