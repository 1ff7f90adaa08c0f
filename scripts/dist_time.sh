#!/usr/bin/env bash
# Measures what a wheel costs somebody who has torch already: from `pip install` to the first explorer on disk.
#
#   scripts/dist_time.sh WHEEL [PYTHON]
#
# WHEEL   one that `make dist` has built, for PYTHON (python3 unless told)
#
# Two things stand before the clock starts: an environment with torch (of constraints.txt), and the packages of the extra `notebook`
# in a folder, so that no network is measured. Then come pip, the first `dynexplore explain` and, because everything that is
# installed is compiled to bytecode by then, the second. Wall and CPU seconds; what installing costs besides is the network's.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$(realpath "${1:?usage: scripts/dist_time.sh WHEEL [PYTHON]}")
python=${2:-python3}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$python" -m venv "$place/venv"
pip=("$place/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install "$(grep '^torch==' constraints.txt)"
"${pip[@]}" download -c constraints.txt --dest "$place/packages" "$wheel[notebook]"
cp examples/toy.py "$place"

TIMEFORMAT='%R s wall, %U s of user and %S s of system CPU'
say() { printf '%-28s ' "$1"; }
say "pip install WHEEL[notebook]"
time "${pip[@]}" install --no-index --find-links "$place/packages" "$wheel[notebook]"
cd "$place"
for which in first second; do
    say "$which explorer"
    time venv/bin/dynexplore explain toy.py --html toy.html >/dev/null 2>&1
done
say "of it, import torch"
time venv/bin/python -c 'import torch' 2>/dev/null
