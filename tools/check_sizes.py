#!/usr/bin/env python3
"""Checks that no class and no function of the daemon has grown too large to be read at once.

  - A class has at most 40 member functions and 25 data members. Deleted functions, static constants
    and nested types do not count; a nested class counts for itself.
  - A function, from its first line to its closing brace, has at most 60 lines.

What is larger stands in ALLOWED, with its reason; an entry that is not needed any more is an error.

Usage: check_sizes.py [--top N] [ROOT]     exit code 1 and one line per violation; --top: also the
                                           largest N of each
       check_sizes.py --self-test
"""

import pathlib
import re
import sys
from typing import NamedTuple

FUNCTIONS, DATA, LINES = 40, 25, 60

# "path: what": reason
ALLOWED = {
    "daemon/roce/wire/cm_messages.hpp: class CmReq": "the fields of the message, in its order",
}


class Size(NamedTuple):
    path: str
    line: int
    what: str  # "class X" or "function X"
    functions: int
    data: int
    lines: int


def blank(text):
    """The code alone: comments, strings and preprocessor lines become spaces; lines stay."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|R\"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)\"|\"(?:\\.|[^\"\\\n])*\""
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def without_groups(head):
    """Without what is in <>, () and [] (a pair of parentheses stays)."""
    head = re.sub(r"operator\s*(?:\(\s*\)|<=>|<<|>>|[<>]=?|->)", "operator@", head)
    for pattern, instead in ((r"<[^<>();]*>", ""), (r"\([^()]*\)", "\0\1"), (r"\[[^\[\]]*\]", "")):
        before = None
        while before != head:
            before = head
            head = re.sub(pattern, instead, head)
            head = re.sub(r"<[^<>();]*>", "", head)
    return head.replace("\0\1", "()")


CLASS = re.compile(r"^(?:template\s*)?(?:typedef\s+)?(class|struct|union)\b\s*(?:alignas\s*\(\)\s*)?"
                   r"([\w:]*)(?:\s+final)?\s*(?::[^:].*)?$", re.S)
SKIPPED = re.compile(r"^(?:using|typedef|friend|static_assert|template\s+class|extern)\b")


def is_function(head):
    """`head` without groups: up to the brace, semicolon or '=' that ends it."""
    head = head.split("operator")[0] + "@()" if "operator" in head else head
    declarator = head.split("=")[0]
    return "()" in re.sub(r"\b(?:alignas|decltype|noexcept|explicit|requires)\s*\(\)", "", declarator)


class Reader:
    """Walks over the declarations of one file."""

    def __init__(self, path, text):
        self.path, self.text, self.sizes = path, blank(text), []
        self.scope(0, len(self.text), [])

    def line_of(self, position):
        return self.text.count("\n", 0, position) + 1

    def close_of(self, position):
        """Of the brace at `position`."""
        depth = 0
        for found in re.compile(r"[{}]").finditer(self.text, position):
            depth += 1 if found.group() == "{" else -1
            if depth == 0:
                return found.start()
        return len(self.text)

    def next_end(self, position, end):
        """The next `;` or brace outside of parentheses."""
        depth = 0
        for found in re.compile(r"[()\[\]{};]").finditer(self.text, position, end):
            mark = found.group()
            if mark in "([":
                depth += 1
            elif mark in ")]":
                depth -= 1
            elif depth == 0:
                return found.start()
            elif mark == "{":
                return self.next_end_in_group(found.start(), end, depth)
        return end

    def next_end_in_group(self, brace, end, depth):
        """Likewise, where a brace stands within parentheses, as in an argument."""
        position = self.close_of(brace) + 1
        for found in re.compile(r"[()\[\]{};]").finditer(self.text, position, end):
            mark = found.group()
            if mark in "([":
                depth += 1
            elif mark in ")]":
                depth -= 1
            elif depth == 0:
                return found.start()
            elif mark == "{":
                return self.next_end_in_group(found.start(), end, depth)
        return end

    def scope(self, position, end, members):
        """Of a namespace or class: adds (is a function) for each member to `members`."""
        start = position
        extra = ""  # what has been read of the declaration, without its braces
        while position < end:
            stop = self.next_end(position, end)
            extra += self.text[position:stop]
            if stop >= end:
                break
            if self.text[stop] == ";":
                self.declaration(extra, members)
            elif self.text[stop] == "{":
                close = self.close_of(stop)
                if (instead := self.block(start, extra, stop, close, members)) is not None:
                    extra += instead
                    position = close + 1
                    continue
            position = start = stop + 1 if self.text[stop] != "{" else close + 1
            extra = ""

    def block(self, start, head, brace, close, members):
        """Of the braces after `head`. None: they end it; else what stands for them in it."""
        head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", "", head)
        plain = without_groups(head).strip()
        plain = re.sub(r"^template\s*", "", plain)
        if re.match(r"(?:inline\s+)?namespace\b|extern\b\s*$", plain):
            self.scope(brace + 1, close, [])
            return None
        if re.match(r"enum\b", plain):
            return " "
        if found := CLASS.match(plain):
            self.klass(start + len(head) - len(head.lstrip()), found, brace, close)
            return " "
        if not is_function(plain):
            return " "
        tail = re.search(r"(\S+)\s*$", plain).group(1)
        initialised = re.search(r"\(\)[^()]*?(?<!:):(?!:)", plain)
        if initialised and re.search(r"[\w>]$", tail) and not re.search(
                r"\b(?:const|noexcept|override|final|try)$", tail):
            return "()"  # a member in the list of a constructor
        members.append(True)
        at = start + re.search(r"\S", self.text[start:]).start()
        named = re.search(r"([\w:~]+|operator\S*)\s*\(\)", plain)
        size = self.line_of(close) - self.line_of(at) + 1
        self.sizes.append(Size(self.path, self.line_of(at),
                               f"function {named.group(1) if named else '?'}", 0, 0, size))
        return None

    def klass(self, at, found, brace, close):
        members = []
        self.scope(brace + 1, close, members)
        functions = sum(1 for member in members if member)
        self.sizes.append(Size(self.path, self.line_of(brace), f"class {found.group(2) or '?'}",
                               functions, len(members) - functions, 0))

    def declaration(self, text, members):
        text = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", "", text)
        plain = re.sub(r"^template\s*", "", without_groups(text).strip())
        plain = re.sub(r"\[\[.*?\]\]", "", plain).strip()
        if not plain or SKIPPED.match(plain) or re.search(r"=\s*delete$", plain):
            return
        if re.match(r"(?:enum|class|struct|union)\b", plain):
            # A nested type; what is named behind its braces is a member.
            if re.search(r"\s\s+\w+\s*$", plain) and "{" not in plain:
                members.append(False)
            return
        if is_function(plain):
            members.append(True)
        elif not re.match(r"(?:inline\s+)?(?:static|constexpr)\b", plain):
            members.extend([False] * (1 + re.sub(r"=[^,]*", "", plain).count(",")))


def sizes_of(root):
    for file in sorted((root / "daemon").rglob("*")):
        if file.suffix in {".hpp", ".cpp"}:
            yield from Reader(file.relative_to(root).as_posix(),
                              file.read_text(encoding="utf-8")).sizes


def violations(sizes, allowed):
    unused = set(allowed)
    for size in sizes:
        too_large = (size.functions > FUNCTIONS or size.data > DATA or size.lines > LINES)
        if not too_large:
            continue
        key = f"{size.path}: {size.what}"
        unused.discard(key)
        if key in allowed:
            continue
        if size.lines:
            yield f"{size.path}:{size.line}: {size.what} has {size.lines} lines, {LINES} at most"
        else:
            yield (f"{size.path}:{size.line}: {size.what} has {size.functions} member functions and "
                   f"{size.data} data members, {FUNCTIONS} and {DATA} at most")
    for key in sorted(unused):
        yield f"{key}: is allowed to be larger, and need not be"


def self_test():
    text = '''
namespace a {
// class Comment { int a; };
class B final : public C {
 public:
  using X = int;
  enum class E { kOne, kTwo };
  B(int one, std::function<void(int)> two) : one_(one), two_{two} {}
  ~B() = default;
  B(const B&) = delete;
  bool operator<(const B& other) const { return one_ < other.one_; }
  template <class F>
  void each(F&& f) const {
    for (int i = 0; i < 3; ++i) f({i});
  }
  static int count();
  static constexpr int kMost = 3;
  struct Inner {
    int a = 0, b = 0;
  } inner;

 private:
  std::map<int, std::function<void(int, int)>> map_;
  int one_ = 1;
  const char* text_ = "{ ( ";
  std::array<int, 3> three_{};
};
int free(int a) {
  return a;
}
}  // namespace a
'''
    sizes = {size.what: size for size in Reader("x.hpp", text).sizes}
    expected = {"class B": (5, 5, 0), "class Inner": (0, 2, 0), "function free": (0, 0, 3),
                "function each": (0, 0, 4)}
    failures = 0
    for what, figures in expected.items():
        found = sizes.get(what)
        if found is None or (found.functions, found.data, found.lines) != figures:
            failures += 1
            print(f"{what}: expected {figures}, got {found}")
    large = [Size("a.cpp", 1, "function f", 0, 0, LINES + 1),
             Size("a.hpp", 1, "class G", FUNCTIONS + 1, 0, 0),
             Size("a.hpp", 9, "class H", 0, DATA + 1, 0),
             Size("a.hpp", 9, "class I", FUNCTIONS, DATA, 0)]
    for allowed, count in (({}, 3), ({"a.hpp: class G": ""}, 2), ({"a.hpp: class I": ""}, 4)):
        if len(list(violations(large, allowed))) != count:
            failures += 1
            print(f"allowed {allowed}: not {count} violations")
    print(f"{failures} failures")
    return failures != 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    top = 0
    if arguments[:1] == ["--top"]:
        top = int(arguments[1])
        arguments = arguments[2:]
    root = pathlib.Path(arguments[0] if arguments else ".").resolve()
    sizes = list(sizes_of(root))
    for figure in ("functions", "data", "lines") if top else ():
        for size in sorted(sizes, key=lambda size: -getattr(size, figure))[:top]:
            print(f"{getattr(size, figure)} {figure}: {size.path}:{size.line} {size.what}")
    problems = list(violations(sizes, ALLOWED))
    if not sizes:
        problems.append(f"{root}: no source files")
    for problem in problems:
        print(problem)
    classes = sum(1 for size in sizes if not size.lines)
    print(f"{classes} classes, {len(sizes) - classes} functions, {len(problems)} violations")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
