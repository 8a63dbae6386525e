#!/bin/bash
# For a guest: tests/guest/run_guest.py debian12 debian13 --script tests/soak/guest.sh --file FILE, where FILE, named soak-options,
# holds the options of tests/soak/soak.py on one line. Its figures come back as RESULTS/soak.json.
set -u
label=user
[ "$(id -u)" -ne 0 ] || label=root,user
read -r -a more < /guest/files/soak-options
exec python3 -B /guest/tree/tests/soak/soak.py --binary "$SBX" --probe "$PROBE" --as "$label" --json "$RESULTS/soak.json" "${more[@]}"
