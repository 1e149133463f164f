# SPDX-License-Identifier: GPL-2.0
"""Reads which module of a Rust crate uses which: `mod` and `use` items, and paths in code."""

import re
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = re.compile(r"r?#?[A-Za-z_]\w*|'[A-Za-z_]\w*(?!')|::|[{}()\[\];,*#=!<>$]|\S")
LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n']+|[^\\'\n])'""", re.DOTALL)
NAME = re.compile(r"[A-Za-z_]\w*$")
ROOTS = ("crate", "self", "super")


@dataclass
class Module:
    """A module of a crate: a file, or a block in one."""

    path: tuple[str, ...]
    file: Path
    parent: "Module | None"
    is_test: bool
    children: dict[str, "Module"] = field(default_factory=dict)
    # Names that `use` items bring in, and the absolute paths behind them.
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Those of them that others may use.
    public: set[str] = field(default_factory=set)
    # Words in the code, to tell if it uses itself what it passes on.
    words: set[str] = field(default_factory=set)
    # Paths as written, with the lines they stand in.
    paths: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    globs: list[tuple[str, ...]] = field(default_factory=list)
    # Those of them that pass on to others what they bring in.
    passed_on: list[tuple[str, ...]] = field(default_factory=list)

    def walk(self):
        """This module and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


@dataclass(frozen=True)
class Import:
    """A file that uses something of another one."""

    user: Path
    line: int
    used: Path
    path: str


def blank(text: str) -> str:
    """The code without comments and literals; lines stay where they are."""
    return LITERAL.sub(lambda m: " " + "\n" * m.group(0).count("\n"), text)


def tokens(code: str) -> list[tuple[str, int]]:
    """Each token with its line."""
    found, line, last = [], 1, 0
    for match in TOKEN.finditer(code):
        line += code.count("\n", last, match.start())
        last = match.start()
        found.append((match.group(0), line))
    return found


class Parser:
    """Reads a file into a [`Module`]."""

    def __init__(self, module: Module, text: str, flags: set[str]):
        self.tokens = tokens(blank(text))
        self.at = 0
        self.flags = flags
        self.paths_of_modules = dict(re.findall(
            r'#\[path = "([^"]+)"\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)', text))
        self.paths_of_modules = {name: path for path, name in self.paths_of_modules.items()}
        self.items(module)

    def peek(self, ahead: int = 0) -> str:
        """The token to come; empty at the end."""
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ""

    def take(self) -> str:
        """The token, which is passed."""
        self.at += 1
        return self.peek(-1)

    def group(self, opening: str, closing: str) -> list[str]:
        """Everything to the end of a bracket that is open."""
        depth, inner = 1, []
        while depth and self.peek():
            token = self.take()
            depth += (token == opening) - (token == closing)
            inner.append(token)
        return inner

    def attribute(self) -> tuple[bool, bool]:
        """Passes `#[...]`. True if what follows is for tests, and if it is left out."""
        self.take()
        if self.peek() == "!":
            self.take()
        self.take()
        words = self.group("[", "]")
        if words[:1] != ["cfg"]:
            return False, False
        cfg = "".join(words[2:-2])
        named = set(re.findall(r"\w+", cfg))
        is_test = bool(named & {"zernel_kunit", "test", "CONFIG_KUNIT"}) and "not" not in named
        crates = {"zernel_core", "zernel_sim", "zernel_simrm", "zernel_nvidia"}
        left_out = named <= crates | {"any"} and not named & self.flags
        return is_test, left_out

    def items(self, module: Module) -> None:
        """Reads to the end of a module."""
        is_test = left_out = False
        depth = 0
        while token := self.peek():
            if token == "#" and self.peek(1) in ("[", "!"):
                test, out = self.attribute()
                is_test, left_out = is_test or test, left_out or out
                continue
            if token == "}":
                self.take()
                depth -= 1
                if depth < 0:
                    return
            elif token == "{":
                self.take()
                depth += 1
            elif token == "mod" and NAME.match(self.peek(1)) and self.peek(2) in (";", "{"):
                self.module(module, is_test, left_out)
            elif token == "use":
                # A name that is passed on is no use of it: the users of the name count.
                passes_on = self.peek(-1) in (")", "pub")
                self.take()
                hidden = Module((), module.file, None, False)
                target = hidden if is_test and not module.is_test else module
                self.use_tree(target, (), passes_on)
            elif NAME.match(token) and self.peek(1) == "::" and self.peek(-1) not in ("::", "$"):
                self.path(module, is_test or self.is_visibility())
            else:
                module.words.add(token)
                if token in (";",) or (token == "}" and not depth):
                    is_test = left_out = False
                self.take()
                if token == "fn" and is_test and not module.is_test:
                    self.skip_item()
                    is_test = False
                continue
            is_test = left_out = False

    def is_visibility(self) -> bool:
        """True for the path in `pub(in path)`."""
        return [self.peek(-3), self.peek(-2), self.peek(-1)] == ["pub", "(", "in"]

    def skip_item(self) -> None:
        """Passes an item that only tests compile."""
        while self.peek() and self.peek() not in ("{", ";"):
            self.take()
        if self.take() == "{":
            self.group("{", "}")

    def module(self, parent: Module, is_test: bool, left_out: bool) -> None:
        """`mod name;` or `mod name {...}`."""
        self.take()
        name, kind = self.take(), self.take()
        child = Module(parent.path + (name,), parent.file, parent, parent.is_test or is_test or name == "tests")
        if kind == "{":
            parent.children[name] = child
            self.items(child)
        elif not left_out:
            child.file = self.file_of(parent, name)
            parent.children[name] = child
            Parser(child, child.file.read_text(encoding="utf-8"), self.flags)

    def file_of(self, parent: Module, name: str) -> Path:
        """The file behind `mod name;`."""
        if name in self.paths_of_modules:
            return (parent.file.parent / self.paths_of_modules[name]).resolve()
        folder = parent.file.parent
        if parent.parent and parent.file.name != "mod.rs":
            folder = folder / parent.file.stem
        plain = folder / f"{name}.rs"
        return plain if plain.exists() else folder / name / "mod.rs"

    def use_tree(self, module: Module, prefix: tuple[str, ...], passes_on: bool) -> None:
        """One tree of a `use` item, to its end."""
        path = prefix
        while True:
            token = self.take()
            if token == "{":
                while self.peek() not in ("}", ""):
                    self.use_tree(module, path, passes_on)
                    if self.peek() == ",":
                        self.take()
                self.take()
                return
            if token == "*":
                module.globs.append(path)
                if passes_on:
                    module.passed_on.append(path)
                else:
                    module.paths.append((path, self.tokens[self.at - 1][1]))
                return
            if token == "::":
                continue
            line = self.tokens[self.at - 1][1]
            path = path if token == "self" and path else path + (token,)
            if self.peek() != "::":
                name = path[-1]
                if self.peek() == "as":
                    self.take()
                    name = self.take()
                if not passes_on:
                    module.paths.append((path, line))
                if name != "_":
                    module.names[name] = path
                    module.public |= {name} if passes_on else set()
                return

    def path(self, module: Module, is_test: bool) -> None:
        """A path in code."""
        line = self.tokens[self.at][1]
        path = [self.take()]
        while self.peek() == "::" and NAME.match(self.peek(1)):
            self.take()
            path.append(self.take())
        if not is_test or module.is_test:
            module.paths.append((tuple(path), line))


class Crate:
    """All modules of a crate, and what they use."""

    def __init__(self, root: Path, flags: set[str]):
        self.root = Module((), root.resolve(), None, False)
        Parser(self.root, root.read_text(encoding="utf-8"), flags)

    def modules(self):
        """All modules."""
        return self.root.walk()

    def absolute(self, module: Module, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """A path from the root of the crate; `None`: it leads out of it."""
        for _ in range(16):
            if not path or path[0] not in ROOTS:
                break
            if path[0] == "crate":
                return path[1:]
            if path[0] == "super":
                if module.parent is None:
                    return None
                module = module.parent
            path = path[1:]
            if not path:
                return module.path
            if path[0] not in ROOTS:
                return module.path + path
        if path[0] in module.children:
            return module.path + path
        if path[0] in module.names and module.names[path[0]] != path:
            before = self.absolute(module, module.names[path[0]])
            return None if before is None else before + path[1:]
        for glob in module.globs:
            if glob != path and (start := self.absolute(module, glob)) is not None:
                there = self.find(start)
                if there and (path[0] in there.children or path[0] in there.names):
                    return self.absolute(there, path)
        return None

    def find(self, path: tuple[str, ...]) -> Module | None:
        """The module of this very path."""
        module = self.root
        for name in path:
            module = module.children.get(name)
            if module is None:
                return None
        return module

    def owner(self, path: tuple[str, ...], passes: int = 16) -> Module:
        """The module that the thing at an absolute path is in."""
        module = self.root
        for at, name in enumerate(path):
            child = module.children.get(name)
            if child is None:
                # A name that the module passes on; one of a macro names itself.
                behind = module.names.get(name) if passes else None
                if behind:
                    further = self.absolute(module, behind)
                    if further is not None and further != path[:at + 1]:
                        return self.owner(further + path[at + 1:], passes - 1)
                for glob in module.passed_on if passes else ():
                    start = self.absolute(module, glob)
                    there = None if start is None else self.find(start)
                    if there and there is not module and (name in there.children or name in there.public):
                        return self.owner(start + path[at:], passes - 1)
                return module
            module = child
        return module

    def imports(self, with_tests: bool = False) -> list[Import]:
        """The uses of one file in another."""
        found = {}
        for module in self.modules():
            if module.is_test and not with_tests:
                continue
            kept = [(module.names[name], 1) for name in module.public & module.words]
            for path, line in module.paths + kept:
                absolute = self.absolute(module, path)
                if absolute is None:
                    continue
                used = self.owner(absolute)
                if used.file != module.file and used.path:
                    key = (module.file, "::".join(absolute))
                    found.setdefault(key, Import(module.file, line, used.file, "::".join(absolute)))
        return list(found.values())
