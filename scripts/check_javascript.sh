#!/usr/bin/env bash
# Checks the types of the explorer's JavaScript (its JSDoc says them) with TypeScript, where node is there to run it.
#
# TypeScript comes from the npm registry once and is kept in the user's cache. Without node, or offline on the first time,
# it says so and ends well: the package itself needs neither.
set -u -o pipefail
cd "$(dirname "$0")/.."

TYPESCRIPT=typescript@5.9.3

if ! command -v npx > /dev/null; then
    echo "dynexplore: no node here, the types of the JavaScript are not checked"
    exit 0
fi
if ! npx --yes --package "$TYPESCRIPT" tsc --version > /dev/null 2>&1; then
    echo "dynexplore: $TYPESCRIPT cannot be fetched, the types of the JavaScript are not checked"
    exit 0
fi
npx --yes --package "$TYPESCRIPT" tsc --project dynexplore/widgets/static/jsconfig.json
