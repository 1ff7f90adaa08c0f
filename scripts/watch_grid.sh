#!/usr/bin/env bash
# The tests of the watch (tests/watching, tests/traces) on every supported Python with every supported torch.
#
#   scripts/watch_grid.sh [PYTHON_VERSIONS] [TORCH_VERSIONS]
#   scripts/watch_grid.sh "3.11 3.13" 2.12.0          a part of it
#
# `.ci/run` runs the diagonal of this. Each cell gets an environment of its own, which is removed when the cell is over; the table at
# the end says what passed. A cell whose environment cannot be made (no such torch for that Python) is listed as such.
set -u -o pipefail
cd "$(dirname "$0")/.."
pythons=${1:-3.11 3.12 3.13}
torches=${2:-2.11.0 2.12.0 2.13.0 2.14.1}
export OMP_NUM_THREADS=1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
summary=()
failed=0
for python in $pythons; do
    for torch in $torches; do
        printf '\n=== Python %s, torch %s\n' "$python" "$torch"
        venv=$place/venv
        if scripts/setup.sh "$venv" "$python" "$torch" test; then
            "$venv/bin/python" -m pytest -q -n 2 --dist loadfile tests/watching tests/traces 2>&1 | tee "$place/log" || failed=1
            said=$(grep -aE '(passed|failed|error).* in [0-9.]+s' "$place/log" | tail -n 1 | tr -d =)
        else
            failed=1 said="no environment"
        fi
        summary+=("$(printf 'Python %-5s torch %-8s %s' "$python" "$torch" "$said")")
        rm -rf "$venv"
    done
done
printf '\n=== the grid\n'
printf '%s\n' "${summary[@]}"
exit $failed
