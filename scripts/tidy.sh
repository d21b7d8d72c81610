#!/usr/bin/env bash
# Tidies go.mod and go.sum of every module in go.work. With -diff it changes nothing, shows what is not tidy and fails.
#
# The modules require each other, at versions that are not published while they are being made. A build finds them
# through go.work, but go mod tidy does not read that file and would ask the network: it is given a copy of each go.mod
# in which our own modules are replaced by their folders.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
flag=${1:-}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
modules=$("$go" list -m -f '{{.Path}} {{.Dir}}')

# edit_replaced changes the copy's replace lines for our own modules: edit_replaced PATH add|drop
edit_replaced() {
	local path dir
	while read -r path dir; do
		# A module that is not installed by users may have such lines of its own.
		if [ "$path" = "$1" ] || grep -q "[[:space:]]$path => " "$copy/own.mod"; then continue; fi
		case $2 in
		add) "$go" mod edit -replace "$path=$dir" "$copy/go.mod" ;;
		drop) "$go" mod edit -dropreplace "$path" "$copy/go.mod" ;;
		esac
	done <<<"$modules"
}

untidy=0
while read -r path dir; do
	cp "$dir/go.mod" "$copy/own.mod"
	cp "$dir/go.mod" "$dir/go.sum" "$copy"
	edit_replaced "$path" add
	if [ "$flag" = -diff ]; then
		(cd "$dir" && GOWORK=off "$go" mod tidy -modfile="$copy/go.mod" -diff) >&2 || untidy=1
	else
		(cd "$dir" && GOWORK=off "$go" mod tidy -modfile="$copy/go.mod")
		edit_replaced "$path" drop
		cp "$copy/go.mod" "$copy/go.sum" "$dir"
	fi
done <<<"$modules"

# What only a build of all modules together needs is in go.work.sum. A build would add what is missing there, and the
# tree would no longer be the commit's.
sed -E "s#(^(use )?[[:space:]]*|=> )\.(/|\$)#\1$PWD\3#" go.work >"$copy/go.work"
GOWORK=$copy/go.work "$go" list -deps -test work >/dev/null
touch "$copy/go.work.sum"
if [ "$flag" = -diff ]; then
	! grep -vxF -f go.work.sum "$copy/go.work.sum" >&2 || untidy=1
else
	cp "$copy/go.work.sum" .
fi
exit "$untidy"
