"""Step 1: read the export, clean it, keep the result in memory (`orders`) and on disk (`clean.csv`)."""

import csv
from collections import Counter
from datetime import date
from pathlib import Path


def read_date(text):
    """Return the date of `2026-01-31` or `31.01.2026`."""
    if "." in text:
        day, month, year = text.split(".")
        return date(int(year), int(month), int(day))
    return date.fromisoformat(text)


dropped = Counter()
orders, seen = [], set()
for row in csv.DictReader(Path("orders.csv").read_text().splitlines()):
    if row["order_id"] in seen:
        dropped["exported twice"] += 1
        continue
    seen.add(row["order_id"])
    region = row["region"].strip().lower()
    if not row["quantity"].isdigit():
        dropped["no quantity"] += 1
        continue
    if not region:
        dropped["no region"] += 1
        continue
    orders.append(
        {
            "id": row["order_id"],
            "date": read_date(row["date"]),
            "region": region,
            "product": row["product"],
            "quantity": int(row["quantity"]),
            "price": float(row["unit_price"].replace(",", ".")),
            "status": row["status"],
        }
    )

with Path("clean.csv").open("w", newline="") as file:
    writer = csv.DictWriter(file, fieldnames=list(orders[0]))
    writer.writeheader()
    writer.writerows(orders)

read = len(orders) + dropped.total()
print(f"{read} rows read, {len(orders)} kept; dropped: {dict(dropped)}")
