# SPDX-License-Identifier: GPL-2.0
"""Checks that the modules under rust/ are a stair: each imports from lower floors alone."""

import sys
from pathlib import Path

from zlab.rust_imports import Crate, Import

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = "Documentation/architecture.rst"

# From the ground up: each line is a floor. What stands beside each other imports nothing of each
# other. A folder stands for what is in it, X.rs for what is in X/, too.
FLOORS = (
    ("policy", "model", "nvidia/status.rs"),
    ("glue/kernel",),
    ("glue/core", "glue/sim", "glue/simrm", "glue/nvidia"),
    ("zernel/error.rs", "zernel/ids.rs", "zernel/tuned.rs"),
    ("zernel/nice.rs",),
    ("zernel/request.rs", "zernel/tracking.rs"),
    ("zernel/registry.rs", "zernel/stream.rs"),
    ("zernel/prefetch.rs", "zernel/slots.rs", "zernel/worker.rs"),
    ("zernel/jobs.rs", "zernel/attributes.rs", "zernel/dump.rs"),
    ("zernel/device.rs",),
    ("zernel/zernel.rs", "sim", "nvidia"),
)

CRATES = (
    ("rust/zernel/zernel.rs", "zernel_core"),
    ("rust/sim/zernel_sim.rs", "zernel_sim"),
    ("rust/sim/zernel_simrm.rs", "zernel_simrm"),
    ("rust/nvidia/zernel_nvidia.rs", "zernel_nvidia"),
)

# Rooms that are one with another one on their floor: a stream shows TSGs, and the registry has it.
TOGETHER = {"zernel/stream.rs": "zernel/registry.rs"}


def room_of(name: str) -> tuple[int, str] | None:
    """The floor of a file, and what it stands in there. Names are relative to rust/."""
    found = None
    for number, floor in enumerate(FLOORS):
        for room in floor:
            inside = name == room or name.startswith(room.removesuffix(".rs") + "/")
            if inside and (found is None or len(room) > len(found[1])):
                found = number, room
    return found


def drawing() -> list[str]:
    """The floors, the top one first, as lines for people."""
    lines = []
    for number, floor in reversed(list(enumerate(FLOORS))):
        rooms = (room if not room.endswith(".rs") else room.removesuffix(".rs") for room in floor)
        lines.append(f"{number:2}  " + "   ".join(rooms))
    return lines


class Stair:
    """The imports of all crates."""

    def __init__(self, root: Path):
        self.base = root / "rust"
        self.imports: dict[tuple[str, str], Import] = {}
        self.count = 0
        for crate, flag in CRATES:
            if not (root / crate).exists():
                continue
            for found in Crate(root / crate, {flag}).imports():
                self.count += 1
                self.imports.setdefault((self.name(found.user), self.name(found.used)), found)

    def name(self, path: Path) -> str:
        """Relative to rust/."""
        return str(path.relative_to(self.base))

    def climbing(self) -> list[str]:
        """Imports from a floor that is not below."""
        found = []
        for (user, used), one in sorted(self.imports.items()):
            above, below = room_of(user), room_of(used)
            for name, room in ((user, above), (used, below)):
                if room is None and name != "glue/mod.rs":
                    found.append(f"rust/{name}: stands on no floor")
            if above is None or below is None or above[1] == below[1]:
                continue
            if TOGETHER.get(above[1], above[1]) == TOGETHER.get(below[1], below[1]):
                continue
            if below[0] >= above[0]:
                found.append(f"rust/{user}:{one.line}: imports {one.path} from above or beside")
        return [line for line in dict.fromkeys(found)]

    def circles(self) -> list[str]:
        """The shortest circle through each file that is in one, once."""
        graph: dict[str, list[str]] = {}
        for user, used in sorted(self.imports):
            graph.setdefault(user, []).append(used)
        chains: dict[frozenset[str], str] = {}
        for start in sorted(graph):
            chain = shortest_circle(graph, start)
            if chain:
                chains.setdefault(frozenset(chain), " -> ".join([*chain, start]))
        return list(chains.values())


def shortest_circle(graph: dict[str, list[str]], start: str) -> list[str]:
    """The files on the shortest way from `start` back to it; empty without any."""
    before: dict[str, str] = {}
    queue = [start]
    for at in queue:
        for after in graph.get(at, ()):
            if after == start:
                chain = [at]
                while chain[-1] != start:
                    chain.append(before[chain[-1]])
                return chain[::-1]
            if after not in before:
                before[after] = at
                queue.append(after)
    return []


def page_differs(root: Path) -> list[str]:
    """The page draws the floors as they are listed here."""
    page = root / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    drawn = "".join(f"    {line}\n" for line in drawing())
    return [] if drawn in text else [f"{PAGE}: draws other floors than scripts/check --floors prints"]


def main() -> int:
    """Prints the floors with --list; checks the tree otherwise."""
    if "--list" in sys.argv[1:]:
        print("\n".join(drawing()))
        return 0
    stair = Stair(ROOT)
    found = stair.climbing() + [f"circle: {chain}" for chain in stair.circles()] + page_differs(ROOT)
    print("\n".join(found) or f"{stair.count} imports, no circle")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
