# SPDX-License-Identifier: Apache-2.0
"""Writes sources that compile each header as if alone, in less than half the time of a source for each.

A source includes a chain of headers, each of which includes all those before it, itself or by way of others. So a
header finds what it includes declared, and nothing else, as in a source of its own. Templates are instantiated at the
end of a source, so a header that leaves a class incomplete, which a later header of the chain might define, is the last
of its chain. Each header is in one chain. What a source costs is what its last header includes: the chains are those
for which the sum of that is least.

usage: header_chains.py OUT FOLDER...   writes OUT/<header>.cpp for each header below the FOLDERS: its chain where it
                                        is the last of one, otherwise nothing but a comment
"""

import re
import sys
from pathlib import Path

sys.setrecursionlimit(10000)  # for match


def reach_of(text):
    """The headers that each header includes, itself or by way of others."""
    direct = {h: [i for i in re.findall(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", text[h], re.M) if i in text]
              for h in text}
    reach = {}
    for header in text:
        reach[header], waiting = set(), [header]
        while waiting:
            for included in direct[waiting.pop()]:
                if included not in reach[header]:
                    reach[header].add(included)
                    waiting.append(included)
    return reach


def leave_incomplete(text, reach):
    """The headers behind which a class is declared and not defined."""
    declared = {h: set(re.findall(r"^(?:class|struct) (\w+);", text[h], re.M)) for h in text}
    defined = {h: set(re.findall(r"^(?:class|struct) (?:alignas\(\w+\) )?(\w+)[^;(]*\{", text[h], re.M)) for h in text}

    def behind(names, header):
        return set().union(names[header], *(names[h] for h in reach[header]))

    return {h for h in text if behind(declared, h) - behind(defined, h)}


def previous_in_chain(reach, last):
    """The header before another in a chain: a matching of headers with such as include them, costly ones first."""
    users = {h: [u for u in reach if h in reach[u] and u not in reach[h]] for h in reach}
    previous = {}

    def match(header, tried):
        for user in users[header]:
            if user not in tried:
                tried.add(user)
                if user not in previous or match(previous[user], tried):
                    previous[user] = header
                    return True
        return False

    for header in sorted(reach.keys() - last, key=lambda h: (-len(reach[h]), h)):
        match(header, set())
    return previous


def chains_of(text):
    """The chain that ends with each header, or nothing where it is in another's."""
    reach = reach_of(text)
    previous = previous_in_chain(reach, leave_incomplete(text, reach))
    chains = {}
    for header in reach.keys() - previous.values():
        chain = [header]
        while chain[0] in previous:
            chain.insert(0, previous[chain[0]])
        chains[header] = chain
    return {header: chains.get(header, []) for header in text}


def main():
    out = Path(sys.argv[1])
    files = {p.relative_to(folder).as_posix(): p for folder in sys.argv[2:] for p in Path(folder).rglob("*.hpp")}
    for header, chain in chains_of({h: files[h].read_text(encoding="utf-8") for h in sorted(files)}).items():
        source = "".join(f"#include <{h}>\n" for h in chain) or "// in the chain of another\n"
        path = out / f"{header}.cpp"
        if not path.exists() or path.read_text() != source:  # else it would be compiled again
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)


if __name__ == "__main__":
    sys.exit(main())
