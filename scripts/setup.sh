#!/usr/bin/env bash
# Makes one virtual environment with dynexplore in it, or says in one sentence what is missing.
#
#   scripts/setup.sh VENV [PYTHON_VERSION] [TORCH_VERSION] [EXTRAS]
#   scripts/setup.sh --check PYTHON_VERSION      only look whether everything is there
#   scripts/setup.sh --find PYTHON_VERSION       print which Python that is
#
# VENV            where it goes, e.g. .venv
# PYTHON_VERSION  3.11, 3.12, 3.13 or 3.14; "any" (the default): the newest one whose CPU build of torch lies in a folder of
#                 $PIP_FIND_LINKS; without such a file python3, and if that is not supported the newest one found
# TORCH_VERSION   a torch other than the one in constraints.txt, e.g. 2.11.0; "" is that one
# EXTRAS          the extras of pyproject.toml that are wanted, all that work on the project needs unless told
#
# $PYTHON, when set, is the Python to use. `uv` installs where it is there, and pip does where it is not, or fails.
# Called by the Makefile and by .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:?usage: scripts/setup.sh VENV [PYTHON_VERSION] [TORCH_VERSION]}
wanted=${2:-any}
torch=${3:-}
extras=${4-lab,test,dev}
supported="3.11 3.12 3.13 3.14"

say() { printf '%s\n' "$*"; }
fail() { printf 'dynexplore: %s\n' "$*" >&2; exit 1; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }

# Those of the versions for which a CPU build of the torch that is wanted is at hand: the other builds bring gigabytes of CUDA.
with_cpu_torch() {
    local version folder wheel release=$torch
    [[ -n $release || $(<constraints.txt) =~ torch==([0-9.]+) ]] && release=${release:-${BASH_REMATCH[1]}}
    for version in "$@"; do
        for folder in ${PIP_FIND_LINKS:-}; do
            for wheel in "$folder/torch-$release+cpu-cp${version/./}-"*.whl; do
                [ ! -f "$wheel" ] || echo "$version"
            done
        done
    done
}

under_pyenv() { ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1" 2>/dev/null | sort -V -r || true; }

# Candidates, best first: what was asked for, then PATH, then what pyenv holds.
candidates() {
    if [ -n "${PYTHON:-}" ]; then
        echo "$PYTHON"
        [[ $PYTHON != python3.* ]] || under_pyenv "${PYTHON#python}" # pyenv's shim of that name works for a chosen version alone
        return
    fi
    local versions version
    versions=$(printf '%s\n' $supported | sort -V -r) # the newest first
    if [ "$wanted" = any ]; then
        versions="$(with_cpu_torch $versions) python3 $versions"
    else
        versions=$wanted
    fi
    for version in $versions; do
        if [ "$version" = python3 ]; then
            echo python3
            continue
        fi
        echo "python$version"
        under_pyenv "$version"
    done
}

find_python() {
    local candidate version
    while read -r candidate; do
        version=$(version_of "$candidate")
        [ -n "$version" ] || continue
        if [ "$wanted" = "$version" ] || { [ "$wanted" = any ] && [[ " $supported " == *" $version "* ]]; }; then
            "$candidate" -c 'import sys; print(sys.executable)'  # not a shim, which may mean another Python elsewhere
            return
        fi
    done < <(candidates)
}

# Where Python's own copy of pip is not where it should be, but a pip is at hand.
venv_without_ensurepip() {
    rm -rf "$venv"
    "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 &&
        "$python" -m pip --disable-pip-version-check --python "$venv/bin/python" install --quiet pip >/dev/null 2>&1
}

check_compiler() {
    local python=$1 version=$2 folder
    local compiler=${CC:-cc}
    command -v "${compiler%% *}" >/dev/null 2>&1 ||
        fail "no C compiler found ('$compiler'); install one (on Debian: apt-get install gcc) or set CC."
    folder=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$folder/Python.h" ] ||
        fail "the headers of Python $version are missing ($folder/Python.h); install them (on Debian: apt-get install python$version-dev)."
    # a compiler without the C library's headers is of no use either
    printf '#include <stdio.h>\n#include <Python.h>\nint main(void) { return 0; }\n' |
        $compiler -I"$folder" -x c -fsyntax-only - 2>/dev/null ||
        fail "the C compiler '$compiler' cannot compile against Python $version's headers; on Debian: apt-get install gcc libc6-dev python$version-dev."
}

[ "$wanted" = any ] || [[ " $supported " == *" $wanted "* ]] ||
    fail "Python $wanted is not supported; these are: ${supported// /, }."
python=$(find_python)
if [ -z "$python" ]; then
    [ -n "${PYTHON:-}" ] && fail "PYTHON=$PYTHON is not a Python that dynexplore supports (${supported// /, })."
    [ "$wanted" = any ] && fail "no supported Python found (${supported// /, }); install one, or set PYTHON=/path/to/python3.11."
    fail "Python $wanted was not found on PATH or under pyenv."
fi
[ "$venv" != --find ] || { echo "$python"; exit 0; }
version=$(version_of "$python")
check_compiler "$python" "$version"
[ "$venv" != --check ] || exit 0

if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
    fail "$venv exists and is no virtual environment; move it away or choose another one with VENV=."
fi
began=$SECONDS
if [ ! -x "$venv/bin/python" ] || [ "$(version_of "$venv/bin/python")" != "$version" ]; then
    say "dynexplore: making $venv with Python $version"
    rm -rf "$venv"
    "$python" -m venv "$venv" >/dev/null 2>&1 || venv_without_ensurepip ||
        fail "Python $version cannot make virtual environments; install its venv module (on Debian: apt-get install python$version-venv)."
fi

constraints=$(mktemp)
log=$(mktemp)
trap 'rm -f "$constraints" "$log"' EXIT
if [ -n "$torch" ]; then
    sed "s/^torch==.*/torch==$torch/" constraints.txt >"$constraints"
else
    cp constraints.txt "$constraints"
fi

# What an installer says, on one line that is written over: which package, and the seconds since the start. In a file: nothing.
progress() {
    local line
    while read -r line; do
        [ -t 1 ] || continue
        case $line in
            Collecting* | Downloading* | Installing* | Building* | Preparing* | " + "*) ;;
            *) continue ;;
        esac
        printf '\r\033[K%5d s  %s' $((SECONDS - began)) "${line:0:100}"
    done
    [ ! -t 1 ] || printf '\r\033[K'
}

# Python compiles what it imports; compiling all of torch beforehand takes longer than installing it.
with_pip() { "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile "$@"; }

install() {
    if command -v uv >/dev/null 2>&1; then
        UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}} uv pip install --python "$venv/bin/python" -c "$constraints" "$@" 2>&1 | tee "$log" | progress && return
        say "dynexplore: uv could not install it ($(tail -n 1 "$log" | cut -c -120)); pip tries"
    fi
    if ! with_pip -c "$constraints" "$@" 2>&1 | tee "$log" | progress; then
        tail -n 25 "$log" >&2
        fail "pip could not install what dynexplore needs; its last lines are above."
    fi
}

torch_version() { "$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true; }

# torch first and alone: a range, or another package's wish for torch, could bring a newer and far larger build
wanted_torch=$(grep '^torch==' "$constraints")
there=$(torch_version)
if [ -z "$there" ] || [ "torch==${there%%+*}" != "$wanted_torch" ]; then
    say "dynexplore: installing $wanted_torch into $venv (takes a minute or more)"
fi
install "$wanted_torch" setuptools
# a plain path entry: setuptools' import finder would be Python code that runs at every import of everything
say "dynexplore: building it, and installing what is needed for: ${extras//,/, }"
install --no-build-isolation --config-settings editable_mode=compat -e ".${extras:+[$extras]}"
say "dynexplore: $venv is ready after $((SECONDS - began)) seconds (Python $version, torch $(torch_version))"
touch "$venv/.built"
