"""Sums up what an earlier step left in `clean.csv`, row by row; its machine may die at any moment. Usage: SECONDS"""

import csv
import sys
import time
from collections import defaultdict
from pathlib import Path

# Where this runs again, it begins with the files of before: in the end the log has one line.
with Path("log.txt").open("a") as log:
    log.write("summing up\n")
orders = list(csv.DictReader(Path("clean.csv").read_text().splitlines()))
pause_s = float(sys.argv[1]) / len(orders)
regions = defaultdict(float)
for number, order in enumerate(orders, start=1):
    if order["status"] not in ("cancelled", "refunded"):
        regions[order["region"]] += int(order["quantity"]) * float(order["price"])
    print(f"order {number} of {len(orders)}: {sum(regions.values()):.2f} so far", flush=True)
    time.sleep(pause_s)
Path("regions.txt").write_text("".join(f"{name} {regions[name]:.2f}\n" for name in sorted(regions)))
print(f"revenue {sum(regions.values()):.2f}", flush=True)
