#!/usr/bin/env bash
# Installs the two programs that are not Python's, or says what goes wrong without them. Never fails itself.
#
#   scripts/system_packages.sh [dot] [chromium]
#
# dot (Graphviz) draws static graphs; without it the explorer draws them itself. Chromium runs tests/browser; without
# it those tests fail. Only root can install packages, and only through apt-get here.
set -u

declare -A package=([dot]=graphviz [chromium]=chromium)
declare -A without=(
    [dot]="static graphs are drawn without Graphviz"
    [chromium]="the tests in tests/browser fail"
)

missing=()
for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0

names=()
for program in "${missing[@]}"; do names+=("${package[$program]}"); done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "dynexplore: installing ${names[*]} with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null 2>&1
    apt-get install -y -qq --no-install-recommends "${names[@]}" >/dev/null 2>&1
    why="apt-get could not install it"
elif [ "$(id -u)" != 0 ]; then
    why="installing it needs root rights: apt-get install ${names[*]}"
else
    why="there is no apt-get here"
fi
for program in "${missing[@]}"; do
    command -v "$program" >/dev/null 2>&1 ||
        echo "dynexplore: '$program' is missing ($why); ${without[$program]}, everything else works."
done
exit 0
