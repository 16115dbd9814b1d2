"""Step 2: revenue by month, region and product. `orders` is still in memory, from step 1."""

# ruff: noqa: F821 - names of the step before
from collections import defaultdict

by_month, by_region, by_product = defaultdict(float), defaultdict(float), defaultdict(float)
refunded = 0.0
for order in orders:
    amount = order["quantity"] * order["price"]
    if order["status"] == "cancelled":
        continue
    if order["status"] == "refunded":
        refunded += amount
        continue
    by_month[order["date"].strftime("%Y-%m")] += amount
    by_region[order["region"]] += amount
    by_product[order["product"]] += amount

revenue = sum(by_month.values())
print(f"revenue {revenue:.2f}, refunded {refunded:.2f} ({refunded / (revenue + refunded):.1%})")
