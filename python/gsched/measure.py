# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch modules on a GPU, as the program measure does with other graphs.

    python -m gsched.measure all --models net.py:small,large --batches 1,8,32 --out mine

Each module is captured for each batch, and the graphs are measured with the options of the program
measure, which follow below. Where a module cannot be made or captured, one line says why, the other
graphs are measured, and the exit status is 4; it is 1 if there are no others. Of a model, net.py has a
function of its name that takes a batch and returns (module, example_input); or a function `make` that
takes "NAME_bBATCH" and returns the same, as examples/pytorch/models.py has. A name without a file is of
the file before; the first of them may be one of examples/pytorch/models.py. NAME_bBATCH is of that batch
alone.

  --models FILE.py:NAME,NAME,...  and graphs that the program knows: saxpy, sort, ticks, profiles (.json)
  --batches N,...                 default: 1,8,32
  --instances N                   graphs of each with memory of their own; 2 can run beside each other
                                  (default)

The library is the file that GSCHED_MEASURE_LIBRARY names, or libmeasure_graphs.so in the package, or in
build/release/bin of the checkout that holds the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._abi import GschedError
from ._capture import Captured, capture, versions
from ._context import leave_slow_side

INCOMPLETE = 4 # the status where what is there is good, but not all that was asked for
LIBRARY = "libmeasure_graphs.so"
ABI = 1 # GSCHED_MEASURE_ABI
PACKAGE = pathlib.Path(__file__).resolve().parent
EXAMPLES = PACKAGE.parents[1] / "examples" / "pytorch" / "models.py"
BUILT_IN = ("saxpy", "sort", "ticks")


class UsageError(Exception):
    """One line about the command line."""


class gsched_measure_graph(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("batch", ctypes.c_uint32), ("graph", ctypes.c_void_p),
                ("model", ctypes.c_char_p), ("dtype", ctypes.c_char_p),
                ("input_bytes", ctypes.c_uint64), ("output_bytes", ctypes.c_uint64)]


def open_library() -> Any:
    named = os.environ.get("GSCHED_MEASURE_LIBRARY")
    places = [pathlib.Path(named)] if named else [
        PACKAGE / LIBRARY, PACKAGE.parents[1] / "build" / "release" / "bin" / LIBRARY]
    for file in places:
        if not file.is_file():
            continue
        try:
            found = ctypes.CDLL(str(file.absolute()))
        except OSError as e:
            raise GschedError(f"{file}: {e}, expected {LIBRARY}") from None
        try:
            abi = int(found.gsched_measure_abi())
        except AttributeError:
            abi = 0
        if abi != ABI:
            raise GschedError(f"{file}: ABI {abi}, expected {ABI}")
        for entry in (found.gsched_measure_graphs, found.gsched_measure_check_options,
                      found.gsched_measure_check_machine):
            entry.restype = ctypes.c_int
        return found
    raise GschedError(f"{LIBRARY}: not found, expected it in the package, in build/release/bin of its "
                      "checkout, or where GSCHED_MEASURE_LIBRARY says")


def words_of(words: Sequence[str]) -> tuple[int, Any]:
    """(argc, argv) of the program."""
    all_of_them = ["measure", *words]
    return len(all_of_them), (ctypes.c_char_p * len(all_of_them))(*map(os.fsencode, all_of_them))


def take(words: list[str], option: str, default: str) -> str:
    """The value of an option that the program does not have, which is removed from its words."""
    value = default
    for i, word in enumerate(words):
        if word == option or word.startswith(option + "="):
            if word == option and i + 1 == len(words):
                raise UsageError(f"{option}: without a value, expected one")
            value = words[i + 1] if word == option else word[len(option) + 1:]
            del words[i:i + (2 if word == option else 1)]
            if any(w == option or w.startswith(option + "=") for w in words):
                raise UsageError(f"{option}: twice, expected once")
            break
    return value


def counts_of(option: str, text: str) -> list[int]:
    counts = []
    for part in text.split(","):
        if not re.fullmatch(r"[1-9][0-9]{0,6}", part) or int(part) in counts:
            raise UsageError(f'{option}: "{text}", expected whole numbers from 1, each once')
        counts.append(int(part))
    return counts


def models_of(text: str, batches: Sequence[int]) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The program's own graphs, and (file, name, batch) of modules."""
    own: list[str] = []
    modules: list[tuple[str, str, int]] = []
    file = str(EXAMPLES)
    for item in text.split(",") if text else []:
        if item in BUILT_IN or item.endswith(".json"):
            own.append(item)
            continue
        named, colon, name = item.rpartition(":")
        if colon:
            file = named
        if not name or not file.endswith(".py"):
            raise UsageError(f'--models: "{item}", expected FILE.py:NAME')
        if not os.path.isfile(file):
            raise UsageError(f'--models: "{item}": {file} is not there, expected a file of Python')
        with_batch = re.fullmatch(r"(.+)_b([1-9][0-9]{0,6})", name)
        for batch in [int(with_batch.group(2))] if with_batch else batches:
            one = (file, with_batch.group(1) if with_batch else name, batch)
            if one[1:] in [other[1:] for other in modules]:
                raise UsageError(f"--models: {one[1]} in batches of {batch} twice, expected once")
            modules.append(one)
    return own, modules


def load_file(path: str) -> Any:
    """The module of Python of a file; what is beside it can be imported."""
    folder = str(pathlib.Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise GschedError(f"{path}: cannot be loaded, expected a file of Python")
    made = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, made)
    spec.loader.exec_module(made)
    return made


def maker_of(file: Any, path: str, name: str) -> Callable[[int], Any]:
    """A function that makes (module, example_input) of a batch."""
    own = getattr(file, name, None)
    if callable(own):
        return own # type: ignore[no-any-return]
    make: Callable[[str], Any] | None = getattr(file, "make", None)
    if make is not None:
        by_name = make
        return lambda batch: by_name(f"{name}_b{batch}")
    raise GschedError(f"{path}: neither a function {name} nor make, expected one of them")


def first_line(e: BaseException) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0]


@contextlib.contextmanager
def in_one_line(where: str, expected: str) -> Iterator[None]:
    """Reports what a user's code raises as a GschedError."""
    try:
        yield
    except GschedError:
        raise
    except (Exception, SystemExit) as e:
        text = "".join(f": {line}" for line in str(e).strip().splitlines()[:1])
        if ", expected " not in text:
            text += f", expected {expected}"
        raise GschedError(f"{where}: {type(e).__name__}{text}") from None


def loaded_maker(files: dict[str, Any], path: str, name: str) -> Callable[[int], Any]:
    """The maker of a model. `files` keeps the files that are loaded."""
    if path not in files:
        with in_one_line(path, "a file of Python that can be loaded"):
            files[path] = load_file(path)
    return maker_of(files[path], path, name)


def make(files: dict[str, Any], path: str, name: str, batch: int) -> tuple[Any, Any]:
    """(module, example_input) of a model. `files` keeps the files that are loaded."""
    maker = loaded_maker(files, path, name)
    with in_one_line(f"{path}: {name}({batch})", "(module, example_input)"):
        pair = maker(batch)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise GschedError(f"{path}: {name}({batch}) is no pair, expected (module, example_input)")
    return pair[0], pair[1]


def dtype_of(module: Any) -> str:
    """Of the weights: "fp16"; empty if there are none."""
    parameters = getattr(module, "parameters", None)
    for weight in parameters() if callable(parameters) else ():
        if weight.is_floating_point():
            short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
            name = str(weight.dtype).removeprefix("torch.")
            return short.get(name, name)
    return ""


def capture_all(modules: Sequence[tuple[str, str, int]], instances: int,
                gpu: int) -> tuple[list[tuple[str, int, str, Captured]], list[str]]:
    """(name, batch, dtype, captured) of what could be captured, and the names of the other graphs. A
    file that cannot be loaded, or has no such model, is an error before anything is captured."""
    files: dict[str, Any] = {}
    for path, name, _ in modules:
        loaded_maker(files, path, name)
    made = []
    failed = []
    for i, (path, name, batch) in enumerate(modules):
        graph = f"{name}_b{batch}"
        print(f"measure: captures {graph}, {i + 1} of {len(modules)}", file=sys.stderr, flush=True)
        try:
            module, example = make(files, path, name, batch)
            with in_one_line(f"{path}: {name}({batch})", "a module that can be captured"):
                try:
                    captured = capture(module, example, instances=instances, name=name, gpu=gpu)
                except GschedError as e:
                    if instances == 1 or ", expected 1" not in str(e):
                        raise
                    captured = capture(module, example, instances=1, name=name, gpu=gpu)
                dtype = dtype_of(module)
        except GschedError as e:
            print(f"measure: {first_line(e)}", file=sys.stderr, flush=True)
            failed.append(graph)
            continue
        made.append((name, batch, dtype, captured))
    return made, failed


def as_structs(made: Sequence[tuple[str, int, str, Captured]]) -> list[gsched_measure_graph]:
    def size(tensors: Sequence[Any]) -> int:
        return sum(x.numel() * x.element_size() for x in tensors)

    return [gsched_measure_graph(ctypes.sizeof(gsched_measure_graph), batch,
                                 one.graph.raw_cuda_graph(), name.encode(), dtype.encode(),
                                 size(one.inputs), size(one.outputs))
            for name, batch, dtype, captured in made for one in captured.instances]


def version_words() -> list[str]:
    """Options with the versions of what is loaded so far."""
    return [f"--library={name}={version}" for name, version in versions().items()]


def gpu_of(words: Sequence[str]) -> int:
    """The GPU that --device names; the program has checked it."""
    text = take(list(words), "--device", "cuda:0")
    return int(text.partition(":")[2] or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program: the exit code. Errors are one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        batches = counts_of("--batches", take(words, "--batches", "1,8,32"))
        instances = counts_of("--instances", take(words, "--instances", "2"))[0]
        own, modules = models_of(take(words, "--models", ""), batches)
        if own:
            words += ["--models", ",".join(own)]
        library = open_library()
        if "-h" in words or "--help" in words:
            print(__doc__, flush=True)
            return int(library.gsched_measure_check_options(*words_of(words)))
        others = bool(own) or any(w.startswith("--adaptor") for w in words)
        if words and not modules and not others:
            raise UsageError("--models: not given, expected FILE.py:NAME")
        code = int(library.gsched_measure_check_options(*words_of(words)))
        if code:
            return code
        # Partitions whose streams share a hardware queue block each other; the driver reads it once.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        structs: list[gsched_measure_graph] = []
        failed: list[str] = []
        if modules:
            try:
                import torch
            except ImportError:
                raise GschedError("torch is not installed, expected it for modules") from None
            if not torch.cuda.is_available():
                raise GschedError("torch sees no GPU, expected one", 2)
            code = int(library.gsched_measure_check_machine(*words_of(words + version_words())))
            if code:
                return code
            gpu = gpu_of(words)
            made, failed = capture_all(modules, instances, gpu)
            if not made and not others:
                return 1
            leave_slow_side(gpu)
            structs = as_structs(made) # the graphs live as long as `made`
            words += version_words()
        graphs = (gsched_measure_graph * len(structs))(*structs)
        code = int(library.gsched_measure_graphs(*words_of(words), graphs,
                                                 ctypes.c_uint64(len(structs))))
        if failed:
            print(f"measure: {', '.join(failed)} not captured, expected all {len(modules)} graphs",
                  file=sys.stderr)
        return code or (INCOMPLETE if failed else 0)
    except UsageError as e:
        print(f"measure: {e}", file=sys.stderr)
        return 2
    except (GschedError, RuntimeError, ValueError, TypeError, AttributeError, OSError,
            ImportError) as e:
        print(f"measure: {first_line(e)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
