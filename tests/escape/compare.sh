#!/bin/bash
# For a guest that has other tools: tests/guest/run_guest.py debian12-peers --script tests/escape/compare.sh
# What tests/escape/record.py calls; the figures come back as RESULTS/compared.json.
set -u
"$SBX" selftest --compare bwrap,firejail --as session --json > "$RESULTS/compared.json"
