#!/usr/bin/env python3
"""What is banned outside its room: clock calls (loop/), sockets (net/), malloc and free (base/), JSON by printf (codec/); and
anywhere: sprintf, strcpy, strcat, strtok, atoi, rand. A line that ends with `/* lint: why */` is let through."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
anywhere = r"\b(sprintf|strcpy|strcat|strtok|atoi|rand|srand|gets)\s*\("
outside = {
    "loop": (r"\b(clock_gettime|gettimeofday|time)\s*\(", {"loop", "cmd"}),
    "net": (r"\b(socket|accept4?|connect|bind|listen|recv|send|sendmsg|recvmsg|setsockopt)\s*\(", {"net"}),
    "base": (r"\b(malloc|calloc|realloc|free)\s*\(", {"base"}),
    "codec": (r'printf\s*\([^;]*\\"\s*:', {"codec"}),
}
allowed_clock = {"src/base/log.c"}  # the log line stamps itself
faults = []
for path in sorted((root / "src").rglob("*.[ch]")):
    rel = str(path.relative_to(root))
    room = rel.split("/")[1]
    body = re.sub(r"/\*.*?\*/", lambda m: m.group(0) if m.group(0).startswith("/* lint:") else re.sub(r"[^\n]", " ", m.group(0)),
                  path.read_text(), flags=re.S)
    for i, line in enumerate(body.splitlines(), 1):
        if "/* lint:" in line:
            continue
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        m = re.search(anywhere, code)
        if m:
            faults.append(f"{rel}:{i}: {m.group(1)} is banned")
        for name, (pattern, rooms) in outside.items():
            if room in rooms or (name == "loop" and rel in allowed_clock):
                continue
            m = re.search(pattern, line if name == "codec" else code)
            if m and not re.search(r"[>.]\s*$", code[: m.start()]):
                faults.append(f"{rel}:{i}: {m.group(0).strip()} stands outside {name}/")
print("\n".join(faults) if faults else "lint: nothing banned")
sys.exit(1 if faults else 0)
