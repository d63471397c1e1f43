#!/usr/bin/env python3
"""Runs what a document shows.

A comment above a fenced block says what the block is:

  <!-- run -->            commands; each succeeds
  <!-- run: refused -->   commands, of which the last fails
  <!-- run: server N -->  commands that go on in the background, as in a terminal of their own, once they listen on TCP
                          port N (N of a line without one: do not wait)
  <!-- output -->         what the block before has printed, with other numbers; "..." stands for any text,
                          in a line of its own for any lines
  <!-- file: NAME -->     the content of a file
  <!-- not run: WHY -->   neither

A block of `sh` without such a comment is an error. Commands of all blocks run in one folder, by bash.

Usage: run_document.py DOCUMENT     in an empty folder; exit code 1 and what was wrong
       run_document.py --self-test
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"(?:^<!-- (?P<mark>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 60


class Wrong(Exception):
    pass


def even(line):
    """A line without its numbers, and without what depends on their widths."""
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*", "N", " ".join(line.split()))


def first_difference(shown, printed):
    """The line that was not printed in its place, or nothing."""
    printed, anything = [even(line) for line in printed.splitlines()], False
    for line in shown.splitlines():
        if line.strip() == "...":
            anything = True
            continue
        pattern = ".*".join(re.escape(part) for part in even(line).split("..."))
        place = next((i for i, text in enumerate(printed) if re.fullmatch(pattern, text)), None)
        if place is None or (place and not anything):
            return line
        del printed[:place + 1]
        anything = False
    return None if anything or not printed else "the end"


def listens(port):
    pattern = re.compile(rf":{port:04X} 0*:0000 0A")
    return any(pattern.search(pathlib.Path(f"/proc/net/{name}").read_text()) for name in ("tcp", "tcp6"))


class Document:
    def __init__(self, path, folder):
        self.text, self.folder, self.printed, self.background = path.read_text(encoding="utf-8"), folder, None, []
        self.ran = 0

    def start(self, text, out):
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=out, stderr=subprocess.STDOUT, start_new_session=True)

    @staticmethod
    def end(process, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait()

    def command(self, text, refused):
        with tempfile.TemporaryFile("w+") as out:
            process = self.start(text, out)
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.end(process, signal.SIGKILL)
                code = None
            out.seek(0)
            self.printed = out.read()
        if (code is None) or (code != 0) != refused:
            raise Wrong(f"exit code {code}\n{self.printed}")

    def server(self, text, port):
        log = self.folder / f"background-{len(self.background)}.log"
        with open(log, "w") as out:
            process = self.start(text, out)
        self.background.append(process)
        until = time.monotonic() + LIMIT_S
        while port and not listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise Wrong(f"nobody listens on port {port}\n{log.read_text()}")
            time.sleep(0.05)

    def block(self, mark, language, text):
        if not mark or not re.match(r"(run|output|file|not run)\b", mark):
            if language == "sh":
                raise Wrong("a block of commands that is not run, and no reason for it")
        elif mark in ("run", "run: refused"):
            self.command(text, mark.endswith("refused"))
            self.ran += 1
        elif found := re.fullmatch(r"run: server(?: (\d+))?", mark):
            self.server(text, int(found.group(1) or 0))
            self.ran += 1
        elif mark == "output":
            if (wrong := first_difference(text, self.printed or "")) is not None:
                raise Wrong(f"not printed: {wrong}\nbut:\n{self.printed}")
        elif found := re.fullmatch(r"file: ([\w.-]+)", mark):
            (self.folder / found.group(1)).write_text(text)
        elif not re.fullmatch(r"not run: .+", mark):
            raise Wrong(f"no such mark: {mark}")

    def run(self):
        """Where and what is wrong, or nothing."""
        try:
            for found in BLOCK.finditer(self.text):
                line = self.text.count("\n", 0, found.start("language")) + 1
                try:
                    self.block(found["mark"], found["language"], found["text"])
                except Wrong as wrong:
                    return f"line {line}: {wrong}"
            return None if self.ran else "line 1: no commands"
        finally:
            for process in reversed(self.background):
                self.end(process, signal.SIGTERM)


def self_test():
    for text, wanted in [
        ("<!-- run -->\n```sh\nx=1; echo $x 22\n```\n\n<!-- output -->\n```text\n7  333\n```\n", None),
        ("<!-- run -->\n```sh\nprintf 'a\\nb\\nc\\n'\n```\n<!-- output -->\n```\n...\nb\n...\n```\n", None),
        ("<!-- run -->\n```sh\nprintf 'a\\nb\\nc\\n'\n```\n<!-- output -->\n```\na\nc\n```\n", "line 6: not printed: c"),
        ("<!-- run -->\n```sh\nprintf 'a\\nb\\n'\n```\n<!-- output -->\n```\na\n```\n", "line 6: not printed: the end"),
        ("<!-- run -->\n```sh\necho a b c\n```\n<!-- output -->\n```\na ...\n```\n", None),
        ("<!-- run -->\n```sh\nfalse\ntrue\n```\n", "line 2: exit code 1"),
        ("<!-- run: refused -->\n```sh\nfalse\n```\n", None),
        ("<!-- run: refused -->\n```sh\ntrue\n```\n", "line 2: exit code 0"),
        ("x\n```sh\ntrue\n```\n", "line 2: a block of commands"),
        ("<!-- not run: it takes a card -->\n```sh\nfalse\n```\n", "line 1: no commands"),
        ("<!-- file: a.txt -->\n```toml\nb = 1\n```\n<!-- run -->\n```sh\ncat a.txt\n```\n<!-- output -->\n```\nb = 2\n```\n", None),
        ("<!-- run: server 1 -->\n```sh\nfalse\n```\n", "line 2: nobody listens on port 1"),
        ("<!-- run: perhaps -->\n```sh\ntrue\n```\n", "line 2: no such mark"),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "document.md"
            path.write_text(text)
            got = Document(path, pathlib.Path(folder)).run()
            assert (got is None) if wanted is None else (got or "").startswith(wanted), (text, got)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    wrong = Document(pathlib.Path(sys.argv[1]), pathlib.Path.cwd()).run()
    if wrong:
        print(f"{sys.argv[1]}, {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
