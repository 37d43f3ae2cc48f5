# SPDX-License-Identifier: Apache-2.0
"""Headers include what they name of the standard library, Boost.Intrusive and nlohmann-json.

A header that says std::sort includes <algorithm> itself, so that it does not depend on what other headers happen to
include. std_names.txt has the names and their headers.

usage: includes.py SOURCE   every header of the project in the folder SOURCE
"""

import re
import sys
from pathlib import Path

FOLDERS = ["include", "cuda", "tools", "examples", "tests", "bench"]
TABLE = "tests/house/std_names.txt"
ALIASES = {"bi": "boost::intrusive"}  # in all headers

# What needs the header of a name of the standard library without naming it.
SYNTAX = [
    (r"<=>", "<=>", "strong_ordering"),
    (r"\bnew \(", "new (address)", "launder"),
    (r"\bfor \([^;()]* : \{", "for (... : {...})", "initializer_list"),
]

# What is no code, and what is but looks alike: numbers have ', and include lines have ".
TOKEN = re.compile(
    r"""(?P<kept>\b\d(?:'?[\w.])*|\#[ ]*include[ ]*[<"][^>"\n]*[>"])
    |//[^\n]*|/\*.*?\*/
    |R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S | re.X)


def code_of(text):
    """The text without comments, strings and characters, each line where it was."""
    return TOKEN.sub(lambda m: m[0] if m["kept"] else "\n" * m[0].count("\n") or " ", text)


def read_table(path):
    """The headers that have a name, by namespace and name."""
    table, names = {}, None
    for entry in re.sub(r"#.*|\n[ \t]+", " ", path.read_text(encoding="utf-8")).splitlines():
        if section := re.match(r"\[(.*)\]", entry):
            names = table.setdefault(section[1], {})
            continue
        headers, _, provided = entry.partition(":")
        for name in provided.split():
            names.setdefault(name, []).extend(headers.split())
    return table


def uses(code, table):
    """What the code uses: a text that says what, the headers that have it, where it is."""
    spaces = "|".join([*filter(None, table), *ALIASES])
    for use in re.finditer(rf"(?<![\w:])(?:::)?({spaces})::(\w+)(?:::(\w+))?", code):
        space, outer, inner = ALIASES.get(use[1], use[1]), use[2], use[3]
        name = f"{outer}::{inner}" if f"{outer}::{inner}" in table[space] else outer
        yield f"{space}::{name}", table[space].get(name), use.start()
    for use in re.finditer(r"(?<![\w.:])(?<!->)[A-Za-z]\w*", code):
        if use[0] in table[""]:
            yield use[0], table[""][use[0]], use.start()
    for pattern, what, name in SYNTAX:
        for use in re.finditer(pattern, code):
            yield what, table["std"][name], use.start()


def breaches(text, table):
    """Each name whose header the text does not include: the line of its first use, and what is wrong."""
    code = code_of(text)
    included = set(re.findall(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", code, re.M))
    first = {}
    for what, headers, at in uses(code, table):
        if headers is None:
            wrong = f"{what}, not known: add it to {TABLE}"
        elif included.isdisjoint(headers):
            wrong = f"{what}, expected #include " + " or ".join(f"<{h}>" for h in headers[:3])
        else:
            continue
        first[wrong] = min(at, first.get(wrong, at))
    return [(code.count("\n", 0, at) + 1, wrong) for wrong, at in sorted(first.items(), key=lambda f: f[1])]


def main():
    root = Path(sys.argv[1])
    table = read_table(Path(__file__).with_name("std_names.txt"))
    headers = sorted(p for folder in FOLDERS for kind in ("*.hpp", "*.cuh") for p in (root / folder).rglob(kind))
    found = [f"{path.relative_to(root)}:{line}: {wrong}" for path in headers
             for line, wrong in breaches(path.read_text(encoding="utf-8"), table)]
    print(*found, f"{len(headers)} headers, {len(found)} breaches", sep="\n")
    return bool(found) or not headers


if __name__ == "__main__":
    sys.exit(main())
