#!/usr/bin/env bash
# Fails when something that is derived from the code is not what the code gives now: completions, the configuration
# reference, go.mod and go.sum of every module, the formatting. It changes nothing and does not need git.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
stale=0
complain() {
	printf 'verify: %s\n' "$1" >&2
	stale=1
}

"${GO:-go}" run -trimpath ./tools/generate "$fresh"
for path in completions docs/configuration.md; do
	diff -ru "$path" "$fresh/$path" >&2 || complain "$path is not current: run make generate"
done

scripts/tidy.sh -diff || complain "a go.mod, go.sum or go.work.sum is not tidy: run make tidy"

unformatted=$(gofmt -s -l .)
[ -z "$unformatted" ] || complain "not formatted, run make fmt: ${unformatted//$'\n'/ }"

[ "$stale" -eq 0 ] || exit 1
echo 'verify: generated files, go.mod files and formatting are current'
