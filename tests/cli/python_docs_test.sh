#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each public name of the Python package has type hints, and a docstring with the sections of numpydoc
# that it needs: all parameters, what it returns, what it raises, and a class's attributes.
set -euo pipefail
export PYTHONPATH=$GSCHED_SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/docs.py" <<'PY'
import ast, inspect, re, sys, textwrap
import gsched
from gsched import _options

ORDER = ["Parameters", "Attributes", "Methods", "Returns", "Yields", "Other Parameters", "Raises",
         "Warns", "See Also", "Notes", "References", "Examples"]
# Calls that raise GschedError, beside `raise` itself.
RAISING = {"check", "refuse_child", "load_library", "put_options", "_watch", "_checked", "number_in_c",
           "name_in_c", "path_in_c", "moment_in_c"}
faults, checked = [], 0


def sections(doc):
    """(summary, {section: text}) of a docstring; faults of its form are raised."""
    doc = inspect.cleandoc(doc)
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n(-+)$", doc, flags=re.M)
    found = {}
    for name, line, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        if name not in ORDER:
            raise ValueError(f"section {name}, expected one of {', '.join(ORDER)}")
        if len(line) != len(name):
            raise ValueError(f"section {name}: underlined by {len(line)} dashes")
        if name in found:
            raise ValueError(f"section {name}: twice")
        found[name] = text.strip("\n")
    if list(found) != sorted(found, key=ORDER.index):
        raise ValueError(f"sections in the order {list(found)}")
    summary = parts[0].strip().split("\n\n")[0]
    if "\n" in summary or not summary.endswith("."):
        raise ValueError(f"its summary {summary!r} is not one line that ends with a stop")
    return summary, found


def entries(text):
    """Names of a section like Parameters; each has a type and a description."""
    names = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith((" ", "\n")) or not line:
            continue
        head, colon, kind = line.partition(" : ")
        if not colon and not line.startswith("*"):
            raise ValueError(f"{line!r}: no type")
        if i + 1 == len(lines) or not lines[i + 1].startswith("    "):
            raise ValueError(f"{line!r}: no description")
        names += [name.strip().lstrip("*") for name in head.split(",")]
    return names


def raises(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if name in RAISING:
                return True
    return False


def check_function(where, function):
    global checked
    checked += 1
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    for p in parameters:
        if p.annotation is p.empty:
            faults.append(f"{where}: {p.name} has no type hint")
    if signature.return_annotation is signature.empty:
        faults.append(f"{where}: no type hint of what it returns")
    if not function.__doc__:
        faults.append(f"{where}: no docstring")
        return
    _, found = sections(function.__doc__)
    named = entries(found.get("Parameters", "")) + entries(found.get("Other Parameters", ""))
    if sorted(named) != sorted(p.name for p in parameters):
        faults.append(f"{where}: documents {named}, its parameters are {[p.name for p in parameters]}")
    if ("Returns" in found) != (signature.return_annotation not in ("None", None)):
        faults.append(f"{where}: returns {signature.return_annotation}, has sections {list(found)}")
    if raises(function) and "Raises" not in found:
        faults.append(f"{where}: raises, and has no section Raises")


def check_class(name, cls):
    global checked
    checked += 1
    if not cls.__doc__ or cls.__doc__.startswith(f"{name}("):
        faults.append(f"{name}: no docstring")
        return
    _, found = sections(cls.__doc__)
    annotated = [a for a in cls.__dict__.get("__annotations__", {}) if not a.startswith("_")]
    documented = entries(found.get("Attributes", ""))
    if sorted(documented) != sorted(annotated):
        faults.append(f"{name}: documents the attributes {documented}, has {annotated}")
    if re.search(r"\bmade by `", cls.__doc__, re.I) is None and "__init__" in vars(cls):
        parameters = [p for p in inspect.signature(cls.__init__).parameters if p != "self"]
        if entries(found.get("Parameters", "")) != parameters:
            faults.append(f"{name}: its parameters are {parameters}")
        if raises(cls.__init__) and "Raises" not in found:
            faults.append(f"{name}: raises, and has no section Raises")
    for member, value in vars(cls).items():
        if member.startswith("_"):
            continue
        where = f"{name}.{member}"
        try:
            if isinstance(value, property):
                checked += 1
                if not value.__doc__ or not re.match(r"[\w ]+: [A-Z]?", value.__doc__):
                    faults.append(f"{where}: expected a docstring that begins with its type")
                if inspect.signature(value.fget).return_annotation is inspect.Signature.empty:
                    faults.append(f"{where}: no type hint")
            elif inspect.isfunction(value):
                check_function(where, value)
            elif isinstance(value, (classmethod, staticmethod)):
                faults.append(f"{where}: not looked at")
        except ValueError as e:
            faults.append(f"{where}: {e}")


def check(package):
    for name in package.__all__:
        value = getattr(package, name)
        try:
            check_class(name, value) if inspect.isclass(value) else check_function(name, value)
        except ValueError as e:
            faults.append(f"{name}: {e}")


check(gsched)
if not gsched.__doc__ or sorted(gsched.__all__) != gsched.__all__:
    faults.append("gsched: expected a docstring, and __all__ in order")
public = {n for n, v in vars(gsched).items() if not n.startswith("_") and not inspect.ismodule(v)}
if public != set(gsched.__all__):
    faults.append(f"gsched: {public ^ set(gsched.__all__)} are public here and not there")
if set(gsched.ServerOptions.__annotations__) != set(_options.FIELDS):
    faults.append(f"ServerOptions: {set(gsched.ServerOptions.__annotations__) ^ set(_options.FIELDS)}")
modules = [n for n, v in vars(gsched).items() if inspect.ismodule(v)]
if [n for n in modules if not n.startswith("_")]:
    faults.append(f"modules that users see: {modules}")
for fault in faults:
    print("FAILED:", fault)

# The check finds what it is there to find.
real, faults = faults, []
class Bad:
    """A class.

    Attributes
    ----------
    other : int
        Not there.
    """
    kept: int
    def __init__(self, x: int) -> None: pass
    def none(self) -> None: pass
    def lacks(self, x: int) -> int:
        """Do something."""
        raise ValueError
    def untyped(self, x):
        """Do something.

        Parameters
        ----------
        x
            What.
        """
    def order(self) -> int:
        """Do something.

        Notes
        -----
        Some.

        Returns
        -------
        int
            One.
        """
    @property
    def plain(self): return 1
check_class("Bad", Bad)
for text in ("Bad: documents the attributes ['other'], has ['kept']", "Bad: its parameters are ['x']",
             "Bad.none: no docstring", "Bad.lacks: documents [], its parameters are ['x']",
             "Bad.lacks: returns", "Bad.lacks: raises", "Bad.untyped: x has no type hint",
             "Bad.untyped: no type hint of what", "Bad.untyped: 'x': no type",
             "Bad.order: sections in the order", "Bad.plain: expected a docstring",
             "Bad.plain: no type hint"):
    assert any(text in f for f in faults), (text, faults)
print(f"{checked} classes, functions and properties looked at, {len(real)} faults")
sys.exit(bool(real) or checked < 30)
PY
python3 "$work/docs.py"
