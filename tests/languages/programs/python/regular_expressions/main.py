"""Reads an access log, finds slow and failing requests with one regular expression."""
import re
import sys
from collections import Counter

LINE = re.compile(
    r"""(?P<host>\S+)\s-\s\[(?P<day>\d{2})/(?P<month>\w{3})\]\s
        "(?P<verb>GET|POST|PUT)\s(?P<path>/[^\s?"]*)(?:\?(?P<query>[^\s"]*))?"\s
        (?P<status>\d{3})\s(?P<ms>\d+)ms""",
    re.VERBOSE,
)

hits, failures, slow = Counter(), [], []
for number, line in enumerate(sys.stdin, 1):
    match = LINE.fullmatch(line.strip())
    if match is None:
        print(f"line {number} is no request: {line.strip()!r}")
        continue
    hits[match["path"]] += 1
    if match["status"].startswith(("4", "5")):
        failures.append(f"{match['verb']} {match['path']} -> {match['status']}")
    if int(match["ms"]) > 500:
        query = dict(pair.split("=") for pair in (match["query"] or "").split("&") if pair)
        slow.append((int(match["ms"]), match["path"], query))
for path, count in hits.most_common():
    print(f"{count:3} {path}")
print("failures:", ", ".join(failures))
print("slow:", sorted(slow, reverse=True))
print(re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3.\2.\1", "from 2024-01-31 to 2024-02-29"))
