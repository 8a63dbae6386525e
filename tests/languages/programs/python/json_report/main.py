"""Orders as JSON on stdin; a report by customer as JSON on stdout."""
import json
import sys
from collections import defaultdict
from decimal import Decimal

orders = json.load(sys.stdin, parse_float=Decimal)
by_customer = defaultdict(lambda: {"orders": 0, "total": Decimal(0), "items": set()})
for order in orders:
    entry = by_customer[order["customer"]]
    entry["orders"] += 1
    for line in order["lines"]:
        entry["total"] += line["price"] * line["quantity"]
        entry["items"].add(line["item"])


def plain(value):
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, set):
        return sorted(value)
    raise TypeError(type(value))


ranked = dict(sorted(by_customer.items(), key=lambda pair: (-pair[1]["total"], pair[0])))
json.dump(ranked, sys.stdout, default=plain, ensure_ascii=False, indent=1)
print()
