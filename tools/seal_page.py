"""Seals a page whose style and script stand in it: seal_page.py INPUT OUTPUT puts the SHA-256 of each <style> and <script>
in the place of 'unsafe-inline' in its Content-Security-Policy. A browser then runs these and nothing else, whatever data
the page is filled with later. A script element with a type is data, which never runs, and gets no hash."""
import base64
import hashlib
import re
import sys


def hashes(page, element):
    return " ".join(
        "'sha256-" + base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() + "'"
        for body in re.findall(rf"<{element}>(.*?)</{element}>", page, re.S)
    )


def main():
    source, target = sys.argv[1:3]
    with open(source, encoding="utf-8", newline="") as f:
        page = f.read()
    for element in ("script", "style"):
        open_rule = f"{element}-src 'unsafe-inline'"
        if page.count(open_rule) != 1:
            sys.exit(f"{source}: expected {open_rule} exactly once")
        page = page.replace(open_rule, f"{element}-src {hashes(page, element)}")
    with open(target, "w", encoding="utf-8", newline="") as f:
        f.write(page)


if __name__ == "__main__":
    main()
