#!/usr/bin/env python3
"""Where the cycles of W1, W2 and W3p are: user instructions by room of src/ (callgrind, exact), user and system time of the loop's thread and of
the others by the clock's ticks, and where in the kernel, by perf's clock where that is allowed. See README.md.

    bench/flame.py KIT [--seconds 4] [--top 12] [--work W1,W2,W3p] [--out FILE]

Instructions are those of one more request (or chunk): the difference of two lives of different length, so that start and stop cancel out.
Needs valgrind. The binary is RINGMAIN_BINARY, else the release build; one that was built with -Dc_args=-g, as `make flame` does, runs the
same instructions and says of each where it was written, so that what was inlined counts for its own room. Without that it counts for
the function that it was merged into, and a static whose name stands in several rooms is `other`."""
import argparse
import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import stage
from stage import ROOT, Kit, Refused, ringmain

WHOLE, LARGE = ("-b", 2048), ("-b", 61440)
STREAM = ("-s", "--mock", "gap=2000 chunks=1000", "--chunks", 1000)
# what: (arguments of the load, units in the short life, units in the long one, what a unit is)
WORK = {"W1": (WHOLE, 500, 2500, "request"), "W2": (LARGE, 60, 260, "request"), "W3p": (STREAM, 2, 6, "chunk")}
UNITS_A_STREAM = 1000


def rooms_of_symbols():
    """{function: room} from the sources: a symbol names its file, so a name that stands in two rooms is in neither."""
    found = collections.defaultdict(set)
    head = re.compile(r"^(?:static |inline |RM_\w+ |const |struct |enum |unsigned )*[\w ]+?[ *]+(\w+)\([^;{]*\)?\s*(?:\{|$)", re.M)
    for path in (ROOT / "src").glob("*/*.[ch]"):
        for name in head.findall(path.read_text()):
            found[name].add(path.parent.name)
    return {name: next(iter(rooms)) for name, rooms in found.items() if len(rooms) == 1}


def library(path):
    name = pathlib.Path(path).name
    for word, told in (("libc.so", "libc"), ("libcrypto", "libcrypto"), ("libssl", "libssl"), ("sqlite", "sqlite"), ("ld-linux", "libc"), ("libz", "zlib"),
                       ("cares", "c-ares")):
        if word in name:
            return told
    return name


PARSERS = {"llhttp": "llhttp", "yyjson": "yyjson", "unsafe_yyjson": "yyjson"}


def costs(path, rooms):
    """{(room, function): instructions of its own} of one thread's profile in callgrind's own format."""
    names, own, current, is_call = {}, collections.Counter(), None, False
    place = {"fn": "", "ob": "", "fl": ""}

    def full(kind, text):
        m = re.match(r"\((\d+)\)(?: (.*))?", text)
        if not m:
            return text
        if m.group(2) is not None:
            names[kind, m.group(1)] = m.group(2)
        return names.get((kind, m.group(1)), "?")
    for line in open(path, errors="replace"):
        if line.startswith("calls="):
            is_call = True
            continue
        m = re.match(r"(c?)(fn|ob|fl|fi|fe)=(.*)", line)
        if m:
            kind = "fl" if m.group(2) in ("fi", "fe") else m.group(2)
            text = full(kind, m.group(3).strip())
            if not m.group(1):
                place[m.group(2) if m.group(2) in ("fn", "ob") else "fl"] = text
            if m.group(2) == "fn" and not m.group(1):
                current = place["fn"]
            continue
        m = re.match(r"^[+\-*\d]\S* (\d+)$", line)
        if m and current is not None:
            if is_call:
                is_call = False  # that line is what the callee cost
            else:
                own[room_of(current, place["ob"], place["fl"]), current] += int(m.group(1))
    return settled(own, rooms)


def settled(own, rooms):
    """What has no place in src/ (the compiler's own headers, a build without -g) goes to the room where most of its function is; else to the
    one room that has a function of that name."""
    known = collections.defaultdict(collections.Counter)
    for (room, function), v in own.items():
        if room is not None:
            known[function][room] += v
    out = collections.Counter()
    for (room, function), v in own.items():
        if room is None:
            room = known[function].most_common(1)[0][0] if known[function] else rooms.get(bare(function), "other")
        out[room, function] += v
    return out


def bare(function):
    return re.sub(r"('\d+|\.(constprop|isra|part|cold|lto_priv)[\w.]*)", "", function)


def room_of(function, binary, source):
    """None: somewhere in our own program."""
    name, inside = bare(function), re.search(r"/src/(\w+)/[\w.]+\.[ch]$", source)
    if inside:
        return inside.group(1)
    if pathlib.Path(binary).name != pathlib.Path(stage.BINARY).name and "yyjson" not in binary and "llhttp" not in binary:
        return library(binary)
    for word, told in PARSERS.items():
        if name.startswith(word):
            return told
    return None


def life(kit, folder, arguments, units, rooms):
    """{thread: {(room, function): instructions}} of a gateway that serves so many units, one after the other."""
    folder.mkdir()
    under = folder / "under"
    under.write_text(f'#!/bin/sh\nexec valgrind --quiet --tool=callgrind --separate-threads=yes --callgrind-out-file={folder}/cg "{stage.BINARY}" "$@"\n')
    under.chmod(0o755)
    was, stage.BINARY = stage.BINARY, str(under)
    try:
        gateway = ringmain("flame", 8202)
    finally:
        stage.BINARY = was
    try:
        r = kit.load(gateway, "-c", 1, "-n", units, "--timeout", 600, *arguments)
        if r["errors"] or r["ok"] != units:
            raise Refused(f"the load had errors: {r['error_kinds']}")
    finally:
        gateway.stop()
    return {p.suffix + p.name.rsplit("-", 1)[-1]: costs(p, rooms) for p in folder.glob("cg-*")}


def grown(kit, work, rooms):
    """(loop's, others') Counter of (room, function): instructions of one more unit."""
    arguments, few, many, _ = WORK[work]
    with tempfile.TemporaryDirectory() as folder:
        a = life(kit, pathlib.Path(folder) / "few", arguments, few, rooms)
        b = life(kit, pathlib.Path(folder) / "many", arguments, many, rooms)
    n = (many - few) * (UNITS_A_STREAM if work == "W3p" else 1)
    each = {t: collections.Counter({k: (v - a.get(t, {}).get(k, 0)) / n for k, v in b[t].items()}) for t in b}
    totals = {t: sum(c.values()) for t, c in each.items()}
    loop = max(totals, key=totals.get)
    others = collections.Counter()
    for t, c in each.items():
        if t != loop:
            others.update(c)
    return each[loop], others


def times_of(kit, work, seconds):
    """Microseconds of user and system time a unit at the workload's own load, of the loop's thread and of the others; perf's samples."""
    arguments = {"W1": WHOLE, "W2": LARGE, "W3p": ("-s", "--chunks", 200, "--mock", "gap=2000")}[work]
    gateway = ringmain("flame", 8202)
    try:
        kit.load(gateway, "-c", 64, "-t", 0.5, *arguments)
        before = thread_ticks(gateway.proc.pid)
        with sampling(gateway.proc.pid) as samples:
            r = kit.load(gateway, "-c", 64, "-t", seconds, *arguments)
        after = thread_ticks(gateway.proc.pid)
    finally:
        gateway.stop()
    units = r["chunks"] if work == "W3p" else r["ok"]
    spent = {t: tuple(b - a for a, b in zip(before.get(t, (0, 0)), after[t])) for t in after}
    loop = max(spent, key=lambda t: sum(spent[t]))
    each = lambda threads: tuple(sum(spent[t][i] for t in threads) * 1e6 / os.sysconf("SC_CLK_TCK") / units for i in (0, 1))
    return {"loop_time": each([loop]), "other_time": each([t for t in spent if t != loop]), "samples": samples}


@contextlib.contextmanager
def sampling(pid):
    """{(object, symbol): share} by perf's clock, filled at the end; empty where perf is not to be had or not allowed."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/perf.data"
        try:
            perf = subprocess.Popen(["perf", "record", "-q", "-F", "1000", "-e", "cpu-clock", "-p", str(pid), "-o", out], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            perf = None
        try:
            yield found
        finally:
            if perf:
                perf.send_signal(signal.SIGINT)
                perf.wait(60)
        told = subprocess.run(["perf", "report", "-i", out, "--stdio", "--sort", "dso,sym", "-t", ";"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout if perf else ""
        for line in told.splitlines():
            cells = [c.strip() for c in line.split(";")]
            if len(cells) == 3 and re.fullmatch(r"[\d.]+%?", cells[0]):
                found[cells[1], re.sub(r"^\[.\] ", "", cells[2])] = float(cells[0].rstrip("%")) / 100


def thread_ticks(pid):
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        found[task.name] = (int(fields[11]), int(fields[12]))
    return found


def by_room(counter):
    sums = collections.Counter()
    for (room, _), v in counter.items():
        sums[room] += v
    return sums


def tables(profiles, top):
    yield from ["User instructions of the loop, by room: of one more request (W1, W2) or chunk (W3p).", ""]
    names = list(profiles)
    rooms = {w: by_room(p["loop"]) for w, p in profiles.items()}
    total = {w: sum(rooms[w].values()) for w in names}
    order = sorted({r for w in names for r in rooms[w]}, key=lambda r: -max(rooms[w][r] / max(total[w], 1) for w in names))
    yield "| room | " + " | ".join(f"{w} | share" for w in names) + " |"
    yield "| --- " + "| --- | --- " * len(names) + "|"
    for r in order:
        if max(rooms[w][r] / max(total[w], 1) for w in names) >= 0.005:
            yield f"| `{r}` | " + " | ".join(f"{rooms[w][r]:,.0f} | {rooms[w][r] / total[w]:.0%}" for w in names) + " |"
    yield "| **all** | " + " | ".join(f"**{total[w]:,.0f}** | " for w in names) + " |"
    yield "| other threads (ledger, log) | " + " | ".join(f"{sum(profiles[w]['others'].values()):,.0f} | " for w in names) + " |"
    yield from ["", "Microseconds by the kernel's account, at the workload's own load:", "", "| | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    rows = (("loop, user", "loop_time", 0), ("loop, kernel", "loop_time", 1), ("others, user", "other_time", 0), ("others, kernel", "other_time", 1))
    for label, key, i in rows:
        yield f"| {label} | " + " | ".join(f"{profiles[w][key][i]:.2f}" for w in names) + " |"
    share = lambda w: sum(profiles[w][k][1] for k in ("loop_time", "other_time")) / max(sum(sum(profiles[w][k]) for k in ("loop_time", "other_time")), 1e-9)
    yield "| kernel's share | " + " | ".join(f"{share(w):.0%}" for w in names) + " |"
    yield from sampled(profiles, top)
    for w in names:
        yield from ["", f"{w}, the loop's functions:", "", "| function | room | instructions | share |", "| --- | --- | --- | --- |"]
        for (room, function), v in profiles[w]["loop"].most_common(top):
            yield f"| `{function}` | `{room}` | {v:,.0f} | {v / total[w]:.0%} |"


def sampled(profiles, top):
    """What perf's samples say of all threads: the kernel's part, and where in it."""
    taken = {w: p["samples"] for w, p in profiles.items() if p["samples"]}
    if not taken:
        return
    kernel = {w: {f: v for (place, f), v in s.items() if "kernel" in place} for w, s in taken.items()}
    yield from ["", "Samples of perf's clock, all threads:", "", "| | " + " | ".join(taken) + " |", "| --- " * (len(taken) + 1) + "|"]
    yield "| **kernel** | " + " | ".join(f"**{sum(kernel[w].values()):.0%}**" for w in taken) + " |"
    for f in sorted({f for k in kernel.values() for f in k}, key=lambda f: -max(k.get(f, 0) for k in kernel.values()))[:top]:
        yield f"| `{f}` | " + " | ".join(f"{kernel[w].get(f, 0):.1%}" for w in taken) + " |"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("kit", nargs="?", default=os.environ.get("RINGMAIN_BENCH_KIT"))
    ap.add_argument("--seconds", type=float, default=4)
    ap.add_argument("--top", type=int, default=12)
    ap.add_argument("--work", default="W1,W2,W3p")
    ap.add_argument("--out")
    o = ap.parse_args()
    if not o.kit or set(o.work.split(",")) - set(WORK):
        ap.error("give the bench kit's folder, and workloads among: " + " ".join(WORK))
    try:
        kit, rooms, profiles = Kit(o.kit), rooms_of_symbols(), {}
        provider = kit.provider()
        try:
            for w in o.work.split(","):
                loop, others = grown(kit, w, rooms)
                profiles[w] = {"loop": loop, "others": others, **times_of(kit, w, o.seconds)}
                print(f"{w}: measured", file=sys.stderr, flush=True)
        finally:
            provider.stop()
    except (Refused, subprocess.CalledProcessError) as e:
        sys.exit(f"flame: {e}")
    text = "\n".join(tables(profiles, o.top)) + "\n"
    if o.out:
        pathlib.Path(o.out).write_text(text)
    print(text)


if __name__ == "__main__":
    main()
