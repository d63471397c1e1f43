#!/usr/bin/env python3
"""Checks that every test docs/compliance.md names exists.

In the column "tests" of its tables `packets.NAME` is a script of tests/packets/scripts, `system/NAME`
a system test, any other `Suite.Name` a GoogleTest somewhere below tests/. A row without a test is an
error, too.

Usage: check_compliance.py [ROOT]     exit code 1 and one line per error
       check_compliance.py --self-test
"""

import pathlib
import re
import sys
import tempfile

GTEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.M)
NAME = re.compile(r"`([\w./-]+)`")


def tests_of(root):
    found = set()
    for path in (root / "tests").rglob("*.cpp"):
        found |= {f"{suite}.{name}" for suite, name in GTEST.findall(path.read_text())}
    found |= {f"packets.{p.stem}" for p in (root / "tests/packets/scripts").glob("*.packets")}
    found |= {f"system/{p.stem}" for p in (root / "tests/system").rglob("*.test")}
    return found


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def errors_of(root):
    known = tests_of(root)
    column = None
    named = 0
    lines = (root / "docs/compliance.md").read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            column = None
            continue
        cells = cells_of(line)
        if column is None:
            column = cells.index("tests") if "tests" in cells else -1
            continue
        if column < 0 or set(line) <= set("|- "):
            continue
        tests = NAME.findall(cells[column]) if column < len(cells) else []
        if not tests:
            yield f"docs/compliance.md:{number}: no test shows this rule"
        for test in tests:
            named += 1
            if test not in known:
                yield f"docs/compliance.md:{number}: there is no test {test}"
    if named == 0:
        yield "docs/compliance.md: no table has a column \"tests\""


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path in ["docs", "tests/packets/scripts", "tests/system/verbs"]:
            (root / path).mkdir(parents=True)
        (root / "tests/a_test.cpp").write_text("TEST_F(Suite, Works) {\nTEST_P(Other, Goes) {\n")
        (root / "tests/packets/scripts/nak.packets").write_text("")
        (root / "tests/system/verbs/real.test").write_text("")
        table = "| rule | tests |\n| --- | --- |\n"
        document = root / "docs/compliance.md"
        for rows, wanted in [
            ("| a | `Suite.Works`, `packets.nak`, `system/real`, `Other.Goes` |\n", 0),
            ("| a | `Suite.Gone` |\n", 1),
            ("| a | `packets.gone`, `system/gone` |\n", 2),
            ("| a |  |\n", 1),
        ]:
            document.write_text(table + rows + "\n| rule | reason |\n| --- | --- |\n| a | `B.C` |\n")
            got = list(errors_of(root))
            rows_named = 1 if rows == "| a |  |\n" else 0
            assert len(got) == wanted + rows_named, (rows, got)
        document.write_text("nothing\n")
        assert len(list(errors_of(root))) == 1


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    errors = list(errors_of(root))
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
