#!/usr/bin/env python3
"""Names the targets of a build folder that its tests need, one a line, for ninja.

Usage: test_targets.py FOLDER --sanitized
           what the tests need that run with sanitizers: all but those of suite plain
       test_targets.py FOLDER --plain
           what is built by default, but for programs that only tests with sanitizers and tests of suite slow need
"""

import json
import pathlib
import subprocess
import sys


def main(folder, option):
    folder = pathlib.Path(folder).resolve()
    # What meson tells is of when it last ran.
    subprocess.run(["ninja", "-C", folder, "build.ninja"], check=True, stdout=sys.stderr)

    def about(what):
        return json.loads((folder / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))

    sanitized, plain, slow = set(), set(), set()
    for test in about("tests"):
        suites = {name.partition(":")[2] for name in test["suite"]}
        (slow if "slow" in suites else plain if "plain" in suites else sanitized).update(test["depends"])
    for target in about("targets"):
        if option == "--sanitized":
            wanted = target["id"] in sanitized
        else:
            left_out = target["type"] == "executable" and target["id"] in (sanitized | slow) - plain
            # A library is built for what links it.
            wanted = target["build_by_default"] and target["type"] != "static library" and not left_out
        if wanted:
            for file in target["filename"]:
                print(pathlib.Path(file).relative_to(folder))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("--sanitized", "--plain"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
