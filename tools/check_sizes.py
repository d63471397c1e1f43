#!/usr/bin/env python3
"""Checks that no class and no function of the product has grown too large to be read at once.

  - A class has at most 40 member functions and 25 data members. Deleted functions, static constants
    and nested types do not count; a nested class counts for itself.
  - A constructor has at most 7 parameters.
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

FUNCTIONS, DATA, LINES, PARAMETERS = 40, 25, 60, 7
FOLDERS = ("daemon", "libverbs-provider", "guest", "cli")

# "path: what": reason
ALLOWED = {
    "daemon/roce/wire/cm_messages.hpp: class CmReq": "the fields of the message, in its order",
    "libverbs-provider/abi34.hpp: class ContextOps": "the operations of libibverbs, in its order",
}


class Size(NamedTuple):
    path: str
    line: int
    what: str  # "class X", "function X" or "constructor X"
    functions: int = 0
    data: int = 0
    lines: int = 0
    parameters: int = 0


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


BEFORE_CONSTRUCTOR = re.compile(r"template\s*<.*>|requires\b.*|\[\[.*?\]\]|explicit\s*\(.*?\)|"
                                r"\b(?:explicit|constexpr|consteval|inline)\b", re.S)


def constructor_parameters(text, name):
    """Of the constructor of class `name` that `text` declares. None: it declares none."""
    found = re.search(rf"(?<![\w~:]){re.escape(name)}\s*\(", text) if name else None
    if found is None or BEFORE_CONSTRUCTOR.sub("", text[:found.start()]).strip():
        return None
    depth, commas, empty = 1, 0, True
    for mark in re.findall(r"->|<=|>=|<<|\S", text[found.end():]):
        depth += (mark in "([{<") - (mark in ")]}>")
        if depth == 0:
            break
        commas += mark == "," and depth == 1
        empty = False
    return 0 if empty else commas + 1


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

    def scope(self, position, end, members, name=""):
        """Of a namespace or class `name`: adds (is a function) for each member to `members`."""
        start = position
        extra = ""  # what has been read of the declaration, without its braces
        while position < end:
            stop = self.next_end(position, end)
            extra += self.text[position:stop]
            if stop >= end:
                break
            if self.text[stop] == ";":
                self.declaration(start, extra, members, name)
            elif self.text[stop] == "{":
                close = self.close_of(stop)
                if (instead := self.block(start, extra, stop, close, members,
                                          name)) is not None:
                    extra += instead
                    position = close + 1
                    continue
            position = start = stop + 1 if self.text[stop] != "{" else close + 1
            extra = ""

    def constructor(self, start, text, name):
        parameters = constructor_parameters(text, name)
        if parameters is not None:
            at = re.compile(rf"\b{re.escape(name)}\s*\(").search(self.text, start).start()
            self.sizes.append(Size(self.path, self.line_of(at), f"constructor {name}",
                                   parameters=parameters))

    def block(self, start, head, brace, close, members, name):
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
        self.constructor(start, head, name)
        at = start + re.search(r"\S", self.text[start:]).start()
        named = re.search(r"([\w:~]+|operator\S*)\s*\(\)", plain)
        size = self.line_of(close) - self.line_of(at) + 1
        self.sizes.append(Size(self.path, self.line_of(at),
                               f"function {named.group(1) if named else '?'}", lines=size))
        return None

    def klass(self, at, found, brace, close):
        members = []
        self.scope(brace + 1, close, members, found.group(2).rpartition("::")[2])
        functions = sum(1 for member in members if member)
        self.sizes.append(Size(self.path, self.line_of(brace), f"class {found.group(2) or '?'}",
                               functions, len(members) - functions))

    def declaration(self, start, text, members, name):
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
            self.constructor(start, text, name)
        elif not re.match(r"(?:inline\s+)?(?:static|constexpr)\b", plain):
            members.extend([False] * (1 + re.sub(r"=[^,]*", "", plain).count(",")))


def sizes_of(root):
    for file in sorted(file for folder in FOLDERS for file in (root / folder).rglob("*")):
        if file.suffix in {".hpp", ".cpp"}:
            yield from Reader(file.relative_to(root).as_posix(),
                              file.read_text(encoding="utf-8")).sizes


def violations(sizes, allowed):
    unused = set(allowed)
    for size in sizes:
        too_large = (size.functions > FUNCTIONS or size.data > DATA or size.lines > LINES or
                     size.parameters > PARAMETERS)
        if not too_large:
            continue
        key = f"{size.path}: {size.what}"
        unused.discard(key)
        if key in allowed:
            continue
        if size.lines:
            yield f"{size.path}:{size.line}: {size.what} has {size.lines} lines, {LINES} at most"
        elif size.parameters:
            yield (f"{size.path}:{size.line}: {size.what} has {size.parameters} parameters, "
                   f"{PARAMETERS} at most")
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
  B(int one, std::function<void(int, int)> two) : one_(one), two_{two} {}
  explicit B(int one = f(1, 2), std::map<int, std::vector<int>> two = {}, X three = X{3, 3});
  template <class F>
  B(const B& other, F&& f);
  B* make(const B& other = B(1, 2, 3, 4));
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
    Inner() = default;
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
    all_sizes = Reader("x.hpp", text).sizes
    sizes = {size.what: size for size in all_sizes}
    expected = {"class B": (8, 5, 0), "class Inner": (1, 2, 0), "function free": (0, 0, 3),
                "function each": (0, 0, 4)}
    failures = 0
    constructors = [(size.what.split()[1], size.line, size.parameters) for size in all_sizes
                    if size.what.startswith("constructor")]
    if constructors != [("B", 8, 2), ("B", 9, 3), ("B", 11, 2), ("Inner", 23, 0)]:
        failures += 1
        print(f"constructors: got {constructors}")
    for what, figures in expected.items():
        found = sizes.get(what)
        if found is None or (found.functions, found.data, found.lines) != figures:
            failures += 1
            print(f"{what}: expected {figures}, got {found}")
    large = [Size("a.cpp", 1, "function f", lines=LINES + 1),
             Size("a.hpp", 1, "class G", FUNCTIONS + 1),
             Size("a.hpp", 9, "class H", data=DATA + 1),
             Size("a.hpp", 9, "class I", FUNCTIONS, DATA),
             Size("a.hpp", 9, "constructor I", parameters=PARAMETERS)]
    many = ", ".join(f"int p{i}" for i in range(PARAMETERS + 1))
    large += Reader("b.hpp", f"struct J {{ J({many}) {{}} }};").sizes
    for allowed, count in (({}, 4), ({"a.hpp: class G": ""}, 3), ({"a.hpp: class I": ""}, 5),
                           ({"b.hpp: constructor J": ""}, 3)):
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
    for figure in ("functions", "data", "lines", "parameters") if top else ():
        for size in sorted(sizes, key=lambda size: -getattr(size, figure))[:top]:
            print(f"{getattr(size, figure)} {figure}: {size.path}:{size.line} {size.what}")
    problems = list(violations(sizes, ALLOWED))
    if not sizes:
        problems.append(f"{root}: no source files")
    for problem in problems:
        print(problem)
    classes, functions, constructors = (
        sum(1 for size in sizes if size.what.startswith(kind))
        for kind in ("class", "function", "constructor"))
    print(f"{classes} classes, {constructors} constructors, {functions} functions, "
          f"{len(problems)} violations")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
