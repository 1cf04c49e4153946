#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which sources of a target a compiler may get together, for cmake/UnityBuild.cmake.

  cmake/unity_groups.py LIST OUTPUT [ROOT]

LIST has a line `TARGET<tab>FOLDER<tab>SOURCE` for each source, in the order of the target; FOLDER
is that of the CMakeLists.txt that has the target. Generated sources, those beside LIST, are
compiled alone. OUTPUT, a CMake script, is written if it changes. Names in #include "..." are below
ROOT (default: this tree).

The sources of a unit share a scope, and each sees the headers of those before it. What one declares
could take the place of what another means by the same name, without an error: a private function
that is the better overload, a name that hides that of an outer namespace. So two sources come
together only if no name that is private to one occurs in the other, nor any that a header declares
which only the one includes. The test is of text and errs to the safe side: any unqualified
occurrence counts, also that of a local variable.

A list is cut where the digest of a source's own name says so: a new source then changes few units.
"""

import collections
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else __file__ + "/../..").resolve()
MAX_SOURCES = 10  # of a unit
MAX_LINES = 3000  # of a unit: what is too large is the last to be compiled, on one core
# Header-only libraries whose templates each unit compiles again, by the beginning of a header's name.
COSTLY = ("CLI/", "httplib", "nlohmann/json.hpp", "toml", "grpcpp/", "google/protobuf/", "llvm/")
SKIPPED = re.compile(
    r'R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.M)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|\d[\w.']*|[^\s\w]")
WORDS = frozenset(
    "alignas auto bool break case catch char class const constexpr continue decltype default "
    "delete do double else enum explicit extern false final float for friend if inline int "
    "long mutable namespace new noexcept nullptr operator override private protected public "
    "return short signed sizeof static static_assert struct switch template this throw true "
    "try typedef typename union unsigned using virtual void volatile while static_cast "
    "reinterpret_cast const_cast concept requires thread_local co_await __attribute__ __asm__ "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ssize_t "
    "uintptr_t".split()
)


def without_angles(statement):
    """The tokens that no template's arguments are."""
    kept, depth = [], 0
    for token in statement:
        depth += token == "<"
        if not depth or token in "{;":
            kept.append(token)
        depth = max(0, depth - (token == ">"))
    return kept


class Source:
    """A source or a header.

    names: private ones, each with its namespace; offered: others that it declares; words: what
    occurs unqualified; paths: the namespaces that it opens, and those around them; brought: what
    using declarations bring, each with its declaration; spaces: the namespaces that are used as a
    whole; headers: of the tree, all that it includes; known: what those offer; costly: the
    libraries of which it includes templates; alone: it cannot share a unit.
    """

    def __init__(self, path):
        self.path = path
        text = path.read_text(errors="replace")
        includes = re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.M)
        self.headers = set()
        self.costly = {
            name for name in COSTLY if re.search(rf"^[ \t]*#[ \t]*include[ \t]*<{name}", text, re.M)
        }
        for found in (ROOT / name for name in includes):
            if found.is_file() and found not in self.headers:
                self.headers |= {found} | read_source(found).headers
        self.costly = self.costly.union(*(read_source(header).costly for header in self.headers))
        self.known = set().union(*(read_source(header).offered for header in self.headers))
        text = SKIPPED.sub(lambda m: '""' if m[0][0] in "\"'R" else " ", text)
        self.lines = text.count("\n")
        self.names = set()
        self.offered = set()
        self.paths = {()}
        self.brought = {}
        self.spaces = set()
        self.alone = False
        has_defined = False
        words = []
        for kind, rest in DIRECTIVE.findall(text):
            if kind == "define":
                self.names.add(((), re.match(r"\s*(\w+)", rest)[1]))
                has_defined = True
            elif kind == "include":
                # What a macro does to a header it would do to those of the others, or they
                # before it.
                self.alone |= has_defined or ".inc" in rest
            words += re.findall(r"[A-Za-z_]\w*", rest) if kind != "include" else []
        text = DIRECTIVE.sub(" ", text)
        tokens = TOKEN.findall(text)
        self.words = set(words) | {
            word
            for before, word in zip([""] + tokens, tokens)
            if (word[0].isalpha() or word[0] == "_") and before not in (".", "->", "::")
        }
        self.read(tokens)

    def read(self, tokens):
        """Collects what is declared at the scope of a namespace."""
        scopes = []  # of each open brace that is a namespace's its names; none: it is unnamed
        at = 0
        statement = []  # the tokens of the declaration so far, without what parentheses hold
        parens = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token in "([":
                if parens == 0:
                    # `int (*name)(int)`
                    statement += tokens[at + 1 : at + 2] if tokens[at] in ("*", "&") else []
                    statement.append(token)
                parens += 1
            elif token in ")]":
                parens -= 1
            elif parens:
                if token == "{":  # a lambda or a braced value among arguments
                    at = self.skip(tokens, at)
            elif token == "{":
                if statement[:1] in (["namespace"], ["inline"]) and "namespace" in statement:
                    scopes.append(
                        tuple(t for t in statement if t not in ("namespace", "inline", "::"))
                    )
                    path = self.path_of(scopes)
                    self.paths.update(path[:length] for length in range(len(path) + 1))
                    statement = []
                elif statement[:1] == ["extern"] and "(" not in statement:
                    scopes.append(("extern",))
                    statement = []
                elif "enum" in statement:
                    end = self.skip(tokens, at)
                    if "class" not in statement and "struct" not in statement:
                        self.add(scopes, statement, (t for t in tokens[at:end] if t[0].isalpha()))
                    self.declare(scopes, statement + ["{"])
                    at = end
                else:
                    self.declare(scopes, statement + ["{"])
                    end = self.skip(tokens, at)
                    # A class that others declare, with a member of a private type: GCC warns of
                    # it in whatever is not the main file.
                    if statement[:1] in (["class"], ["struct"]) and statement[2:3] == ["::"]:
                        private = {name for _, name in self.names}
                        self.alone |= not private.isdisjoint(tokens[at:end])
                    at = end
                    follows = tokens[at] if at < len(tokens) else ""
                    # What follows a type, if something does, is a variable of it.
                    statement = (
                        ["static"] if follows not in (";", ",") and "(" not in statement else []
                    )
            elif token == "}":
                if scopes:
                    scopes.pop()
                statement = []
            elif token == ";":
                if statement:
                    self.declare(scopes, statement + [";"])
                statement = []
            else:
                statement.append(token)

    @staticmethod
    def path_of(scopes):
        return tuple(name for scope in scopes for name in scope if name != "extern")

    def add(self, scopes, statement, names):
        where = self.names if self.is_private(scopes, statement) else self.offered
        where.update((self.path_of(scopes), name) for name in names if name not in WORDS)

    @staticmethod
    def skip(tokens, at):
        """Behind the brace that closes the one before `at`."""
        depth = 1
        while at < len(tokens) and depth:
            depth += (tokens[at] == "{") - (tokens[at] == "}")
            at += 1
        return at

    @staticmethod
    def is_private(scopes, statement):
        is_constant = "constexpr" in statement or statement[:1] == ["const"]
        if () in scopes or "static" in statement or statement[0] == "typedef":
            return True
        return is_constant and "(" not in statement

    def declare(self, scopes, statement):
        if statement[0] == "using":
            text = " ".join(statement)
            if "namespace" in statement:
                self.spaces.add(text)
            elif len(statement) > 2:
                self.brought[statement[1] if statement[2] == "=" else statement[-2]] = text
            return
        if statement[0] == "namespace":  # another name for one
            self.brought[statement[1]] = " ".join(statement)
            return
        # An operator has no name by which its uses could be seen.
        self.alone |= "operator" in statement and self.is_private(scopes, statement)
        statement = without_angles(statement)
        if ":" in statement:  # before what a class derives from, and what a constructor sets
            statement = statement[: statement.index(":") + 1]
        if len(statement) == 3 and statement[0] in ("class", "struct") and statement[2] == ";":
            return  # as another header defines it
        self.add(
            scopes,
            statement,
            (
                token
                for before, token, after in zip([""] + statement, statement, statement[1:])
                if (token[0].isalpha() or token[0] == "_")
                and before != "::"
                and after in ("(", "[", "{", ";", "=", ",", ":")
            ),
        )


def read_source(path, cache={}):
    if path not in cache:
        cache[path] = Source(path) if path.exists() else None
    return cache[path]


def occur_in(names, other):
    """Whether one of these names, each with its namespace, is seen where `other` uses it."""
    return any(name in other.words and path in other.paths for path, name in names)


def is_heard(header, other, cache={}):
    """Whether a name that `header` declares occurs in `other`."""
    key = header, other.path
    if key not in cache:
        cache[key] = occur_in(read_source(header).offered | read_source(header).names, other)
    return cache[key]


def meets(one, other):
    """Whether what `one` declares could take the place of what `other` means, or be ambiguous."""
    if one.names & other.names or occur_in(one.names, other):
        return True
    if occur_in(one.offered - other.known, other):
        return True
    if any(occur_in(one.names, read_source(header)) for header in other.headers - one.headers):
        return True
    if any(is_heard(header, other) for header in one.headers - other.headers):
        return True
    return any(
        name in other.words and other.brought.get(name) != text
        for name, text in one.brought.items()
    )


def fits(unit, source):
    return (
        len(unit) < MAX_SOURCES
        and sum(other.lines for other in unit) + source.lines <= MAX_LINES
        and all(other.spaces == source.spaces for other in unit)
        and not any(meets(other, source) or meets(source, other) for other in unit)
    )


def group(paths):
    """[[path]]: those that a unit has; whatever is compiled alone is in none.

    Sources of the same costly libraries come first, in as few units as hold them.
    """
    sources = [(path, read_source(path)) for path in paths]
    sources = [(path, source) for path, source in sources if source and not source.alone]
    sources.sort(key=lambda each: [name not in each[1].costly for name in COSTLY])
    units = []
    first = 0  # of the units since the list was cut
    for path, source in sources:
        if not source.costly and hashlib.md5(path.name.encode()).hexdigest()[0] == "0":
            first = len(units)
        for unit in units[first:]:
            if fits([read_source(other) for other in unit], source):
                unit.append(path)
                break
        else:
            units.append([path])
    return [unit for unit in units if len(unit) > 1]


def main():
    build = pathlib.Path(sys.argv[1]).parent  # what lies there is generated, and not there at first
    targets = collections.OrderedDict()
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        target, folder, path = line.split("\t")
        targets.setdefault((target, folder), []).append(pathlib.Path(path))
    lines = []
    for (target, folder), paths in targets.items():
        units = group([path for path in paths if build not in path.parents])
        together = {path for unit in units for path in unit}
        alone = [str(path) for path in paths if path not in together]
        for number, unit in enumerate(units):
            lines.append(
                f"set_source_files_properties({' '.join(map(str, unit))} DIRECTORY {folder}"
                f' PROPERTIES UNITY_GROUP "{target}_{number}")'
            )
        if alone:
            lines.append(
                f"set_source_files_properties({' '.join(alone)} DIRECTORY {folder}"
                " PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)"
            )
    text = "\n".join(lines) + "\n"
    output = pathlib.Path(sys.argv[2])
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


if __name__ == "__main__":
    main()
