#!/usr/bin/env python3
"""Sizes that keep us honest: functions over 70 lines, files over 1,000, headers over 150. tests/size_exceptions.txt lists the
known ones; the list may only shrink. --list prints the worst."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
found = {}
longest = []
for path in sorted((root / "src").rglob("*.[ch]")):
    rel = str(path.relative_to(root))
    lines = path.read_text().splitlines()
    if path.suffix == ".c" and len(lines) > 1000 or path.suffix == ".h" and len(lines) > 200:
        found[rel] = len(lines)
    start = name = None
    for i, line in enumerate(lines):
        if line == "{":
            j = i - 1
            while j > 0 and "(" not in lines[j]:
                j -= 1
            while j > 0 and lines[j].startswith((" ", "\t")):
                j -= 1
            m = re.search(r"(\w+)\(", lines[j])
            start, name = i, m.group(1) if m else "?"
        elif line == "}" and start is not None:
            n = i - start
            longest.append((n, f"{rel}:{name}"))
            if n > 70:
                found[f"{rel}:{name}"] = n
            start = None
if "--list" in sys.argv:
    for n, what in sorted(longest, reverse=True)[:20]:
        print(f"{n:5} {what}")
    ns = sorted(n for n, _ in longest)
    if ns:
        print(f"{len(ns)} functions, median {ns[len(ns) // 2]} lines, 95 % under {ns[len(ns) * 95 // 100]}")
    sys.exit(0)
exceptions = set((root / "tests/size_exceptions.txt").read_text().split())
faults = [f"{k}: {n} lines" for k, n in found.items() if k not in exceptions]
stale = sorted(exceptions - set(found))
faults += [f"{k}: no longer too long; take it off tests/size_exceptions.txt" for k in stale]
print("\n".join(faults) if faults else f"size: {len(longest)} functions, {len(exceptions)} known exceptions")
sys.exit(1 if faults else 0)
