#!/usr/bin/env python3
"""Checks that the fuzz target `requests` makes every request to the engine.

A request is a struct of daemon/engine/requests/*.hpp with a function run(Engine&). The list AllRequests
(tests/fuzz/requests/asked.hpp) has all of them, and other sources of the target name each one. The test
fuzz-corpus-requests fails if the kept inputs do not reach one of the list.

Usage: check_requests.py [ROOT]     exit code 1 and one line per request that is left out
       check_requests.py --self-test
"""

import pathlib
import re
import sys
import tempfile

HEADERS = "daemon/engine/requests"
TARGET = "tests/fuzz"
LIST = "tests/fuzz/requests/asked.hpp"

STRUCT = re.compile(r"^(?:struct|class)\s+(\w+)\s*(?:final\s*)?\{(.*?)^\};", re.S | re.M)
RUN = re.compile(r"\brun\(Engine&")
NAMED = re.compile(r"\bengine::(\w+)")


def code_of(path):
    """The text of a file without comments and string literals."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def requests_of(root):
    """The names of requests, with the header of each."""
    found = {}
    for header in sorted((root / HEADERS).glob("*.hpp")):
        for name, body in STRUCT.findall(code_of(header)):
            if RUN.search(body):
                found[name] = header.relative_to(root).as_posix()
    return found


def named_in(paths):
    return {name for path in paths for name in NAMED.findall(code_of(path))}


def errors_of(root):
    requests = requests_of(root)
    if not requests:
        yield f"{HEADERS}: has no request"
    listed = named_in([root / LIST])
    target = root / TARGET
    sources = [target / "requests.cpp", *sorted((target / "requests").glob("*"))]
    made = named_in(path for path in sources if path != root / LIST)
    for name, header in requests.items():
        if name not in listed:
            yield f"{header}: {LIST} does not list {name}"
        if name not in made:
            yield f"{header}: the fuzz target requests does not make {name}; add an operation for it"


def self_test():
    header = ("/// Adds a thing. class Engine;\nstruct AddThing {\n  Thing& thing;\n  bool run(Engine& engine) const;\n};\n"
              "struct Thing {\n  int a;\n};\n")
    cases = [
        # list, source, parts of the expected complaints
        ("tuple<engine::AddThing>", "ask(engine::AddThing{thing});", []),
        ("tuple<engine::AddThing>", "// ask(engine::AddThing{thing});", ["does not make AddThing"]),
        ("tuple<engine::AddThing>", "ask(engine::AddThings{thing});", ["does not make AddThing"]),
        ("tuple<>", "ask(engine::AddThing{thing});", ["does not list AddThing"]),
        ("tuple<>", "", ["does not list AddThing", "does not make AddThing"]),
    ]
    failures = 0
    for listed, source, expected in cases:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in ((f"{HEADERS}/things.hpp", header), (LIST, listed),
                               (f"{TARGET}/requests.cpp", ""), (f"{TARGET}/requests/a.cpp", source)):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            errors = list(errors_of(root))
        if len(errors) != len(expected) or any(part not in error
                                               for part, error in zip(expected, errors)):
            failures += 1
            print(f"{listed!r}, {source!r}: expected {expected}, got {errors}")
    print(f"{len(cases) - failures} of {len(cases)} cases right")
    return failures != 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    errors = list(errors_of(root))
    for error in errors:
        print(error)
    print(f"{len(requests_of(root))} requests, {len(errors)} left out")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
