"""Turns a file into a C array at build time: embed.py INPUT OUTPUT SYMBOL gives SYMBOL[] and SYMBOL_n (the length
without the NUL that follows the bytes)."""
import sys


def main():
    source, target, symbol = sys.argv[1:4]
    with open(source, "rb") as f:
        data = f.read()
    rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
    text = (
        "/* Generated. Do not edit. */\n#include <stddef.h>\n\n"
        f"extern const unsigned char {symbol}[];\nextern const size_t {symbol}_n;\n"
        f"const unsigned char {symbol}[] = {{\n    " + ",\n    ".join(rows + ["0"]) + "};\n"
        f"const size_t {symbol}_n = {len(data)};\n"
    )
    with open(target, "w", encoding="ascii") as f:
        f.write(text)


if __name__ == "__main__":
    main()
