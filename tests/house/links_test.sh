#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# links_test.sh SOURCE: links and pictures of the documentation lead to files and headings that are
# there, and a page of docs/ that any file names exists. Files elsewhere are not asked for. The rows of a
# table are lines with as many cells as its heading: wrapped as prose, they are no table.
set -euo pipefail
exec python3 - "$1" <<'PY'
import os, re, sys

root = sys.argv[1]
skipped = {".git", "build", "__pycache__", ".cache"}
files = []
for folder, folders, names in os.walk(root):
    folders[:] = [f for f in folders if f not in skipped]
    files += [os.path.join(folder, name) for name in names]
failed = 0


def wrong(path, line, text):
    global failed
    failed += 1
    print(f"{os.path.relpath(path, root)}:{line}: {text}")


def anchors(path):
    found, fenced = set(), False
    for line in open(path, encoding="utf-8"):
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"#+ +(.*)", line)):
            words = re.sub(r"[^\w\- ]", "", heading[1].strip().lower())
            found.add(words.replace(" ", "-"))
    return found


links = 0
for path in (f for f in files if f.endswith(".md")):
    fenced = False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        fenced ^= line.startswith("```")
        if fenced:
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if "://" in target:
                continue
            links += 1
            name, _, heading = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(to):
                wrong(path, number, f"no {target}")
            elif heading and to.endswith(".md") and heading not in anchors(to):
                wrong(path, number, f"no heading for {target}")

for path in (f for f in files if f.endswith(".md")):
    fenced, cells = False, 0
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        fenced ^= line.startswith("```")
        bare = re.sub(r"`[^`]*`", "", line).replace("\\|", "").strip()
        if fenced or not bare.startswith("|"):
            if not fenced and re.search(r"\|[ :-]*-{3}[ :-]*\||\| .* \| .* \|", bare):
                wrong(path, number, "a row of a table within a paragraph")
            cells = 0
            continue
        cells = cells or bare.count("|")
        if bare.count("|") != cells or not bare.endswith("|"):
            wrong(path, number, f"a row of {bare.count('|') - 1} cells, expected {cells - 1}")

for path in files:
    if not re.search(r"\.(md|hpp|cpp|cuh|cu|h|py|sh|txt|cmake)$|/[a-z_]+$", path):
        continue
    text = open(path, encoding="utf-8", errors="replace").read()
    for number, line in enumerate(text.splitlines(), 1):
        for page in re.findall(r"(?<![\w/.])docs/[\w/]+\.(?:md|svg)", line):
            if not os.path.exists(os.path.join(root, page)):
                wrong(path, number, f"no {page}")

if links < 20:
    wrong(os.path.join(root, "README.md"), 1, f"{links} links found, expected more")
print(f"{links} links, {failed} of them wrong")
sys.exit(failed > 0)
PY
