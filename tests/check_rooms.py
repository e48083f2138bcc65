#!/usr/bin/env python3
"""Includes go down only: each file of src/ may include its own room and the rooms that the table names (ARCHITECTURE.md).

The table here is the one of meson.build, read from there, so that what links and what may be included are one thing. Two rooms
see more than they link: `cmd` sees all."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
text = (root / "meson.build").read_text()
table = {}
for name, below in re.findall(r"\['(\w+)', \[([^\]]*)\]", text):
    table[name] = set(re.findall(r"'(\w+)'", below))
order = list(table)
faults = []

for room, below in table.items():
    for b in below:
        if order.index(b) >= order.index(room):
            faults.append(f"meson.build: {room} may see {b}, which is not below it")
table["cmd"] = set(table)

n = 0
for path in sorted((root / "src").rglob("*.[ch]")) + sorted((root / "src").rglob("*.def")):
    room = path.relative_to(root / "src").parts[0]
    for i, line in enumerate(path.read_text().splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        n += 1
        parts = m.group(1).split("/")
        where = f"{path.relative_to(root)}:{i}"
        if len(parts) < 2:
            faults.append(f"{where}: \"{m.group(1)}\" does not name its room")
        elif parts[0] != room and parts[0] not in table.get(room, set()):
            faults.append(f"{where}: room {room} may not include {m.group(1)}")

print("\n".join(faults) if faults else f"rooms: {n} includes, all go down")
sys.exit(1 if faults else 0)
