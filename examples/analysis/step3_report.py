"""Step 3: the report, with charts as text, from what step 2 left in memory; written to `report.txt` and printed."""

# ruff: noqa: F821 - names of the step before
from pathlib import Path


def chart(title, values, width=30):
    """Return the lines of a bar chart, largest first."""
    widest = max(values.values())
    lines = [title]
    for name, value in sorted(values.items(), key=lambda item: -item[1]):
        bar = "#" * max(1, round(width * value / widest))
        lines.append(f"  {name:<22} {bar:<{width}} {value:>9.2f}")
    return lines


report = [
    f"Revenue {min(by_month)} to {max(by_month)}: {revenue:.2f}",
    "",
    *chart("by region", by_region),
    "",
    *chart("by product", by_product),
    "",
    "by month",
    *(f"  {month}  {by_month[month]:>9.2f}" for month in sorted(by_month)),
]
Path("report.txt").write_text("\n".join(report) + "\n")
print("\n".join(report))
