"""The picture: what got through in each class, and what each costs; the whole table in words."""

from __future__ import annotations

from labs.drawing import bars, picture
from labs.frame import Figures

WORK = ("compute_ms", "calls_ms", "files_ms")


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    kinds = {"plain process": wall["verdicts"], **answer["verdicts"]}
    cost = {"plain process": wall["costs"], **answer["costs"]}
    words = ("contained", "NOT contained", "bounded")
    rows = [
        (name, tuple(float(list(told.values()).count(word)) for word in words))
        for name, told in kinds.items()
    ]
    return picture(
        bars("", "What became of the attacks", words, rows, ""),
        bars(
            "",
            "A start",
            ("start",),
            [(name, (one["start_ms"],)) for name, one in cost.items()],
            "ms",
        ),
        bars(
            "",
            "Work: a million additions, 50,000 system calls, 300 files",
            tuple(name.removesuffix("_ms") for name in WORK),
            [(name, tuple(one[work] for work in WORK)) for name, one in cost.items()],
            "ms",
        ),
    )


def tell(wall: Figures, answer: Figures) -> str:
    """Return the tables, for the README."""
    kinds = {"plain process": wall["verdicts"], **answer["verdicts"]}
    cost = {"plain process": wall["costs"], **answer["costs"]}
    lines = ["| attack | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for attack in wall["verdicts"]:
        words = [
            told[attack].replace("NOT contained", "**not contained**") for told in kinds.values()
        ]
        lines.append(f"| {attack} | " + " | ".join(words) + " |")
    lines += ["", "| cost | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for name in cost["plain process"]:
        lines.append(
            f"| `{name}` | " + " | ".join(f"{cost[kind][name]:g}" for kind in kinds) + " |"
        )
    lines += [
        "",
        "Not on this machine: "
        + "; ".join(f"`{name}`: {why}" for name, why in answer["missing"].items())
        + ".",
    ]
    return "\n".join(lines)
