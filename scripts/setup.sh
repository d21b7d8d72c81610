#!/usr/bin/env bash
# Makes sure that what `make run` and `make test` need is on this machine: Go, the PostgreSQL server
# programs and redis-server. It installs the two servers from the distribution's packages where it can
# (Debian and Ubuntu) and says so; elsewhere it names the line to type and stops. Nothing is installed,
# asked or printed when everything is there, so every target may depend on it. With the argument "torture"
# it also installs libfaketime, which makes a database's clock wrong, where packages are to be had; with
# "scoreboard" pgbouncer, too; with "test" pgbouncer, RabbitMQ, Chromium and axe, for the journeys through the web page; with
# "pictures" a Python that reaches PostgreSQL, for the picture of a trace.
set -euo pipefail

min_redis=7 # the oldest the suite has been run on; consumers themselves work with much older ones

# Where the system's files are looked for; the script's own test points it at a folder.
root=${SETUP_ROOT:-}

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
	printf 'setup: error: %s\n' "$1" >&2
	shift
	for hint in "$@"; do printf 'setup: hint: %s\n' "$hint" >&2; done
	exit 1
}

# Packages keep the server programs off PATH, one folder per major version, so PATH alone proves nothing. These are the
# places where outboxctl dev looks, too; PG_BIN, when set, decides alone.
has_postgres() {
	local dir
	if [ -n "${PG_BIN:-}" ]; then
		[ -x "$PG_BIN/initdb" ] && [ -x "$PG_BIN/postgres" ]
		return
	fi
	command -v initdb >/dev/null && command -v postgres >/dev/null && return 0
	for dir in "$root"/usr/lib/postgresql/*/bin "$root"/usr/pgsql-*/bin "$root"/usr/libexec/postgresql* \
		"$root"/opt/homebrew/opt/postgresql*/bin "$root"/usr/local/opt/postgresql*/bin \
		"$root"/Applications/Postgres.app/Contents/Versions/*/bin "$root"/usr/local/pgsql/bin; do
		[ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && return 0
	done
	return 1
}

has_redis() { command -v redis-server >/dev/null; }

redis_major() { redis-server --version 2>/dev/null | sed -n 's/.*v=\([0-9][0-9]*\)\..*/\1/p'; }

has_pgbouncer() { command -v pgbouncer >/dev/null || [ -x "$root/usr/sbin/pgbouncer" ]; }

has_chromium() {
	[ -n "${CHROMIUM:-}" ] || command -v chromium-headless-shell >/dev/null || [ -x "$root/usr/lib/chromium/chromium" ] ||
		command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

# axe, the accessibility checker, is not ours to hand on: each machine fetches it once, and the digest says that it is this one.
axe=${root:+$root/}bin/axe-4.14.0.min.js
fetch_axe() {
	local dir
	if ! command -v npm >/dev/null; then
		say "no npm here: the web page's accessibility is not tested"
		return
	fi
	dir=$(mktemp -d)
	if npm pack --silent --pack-destination "$dir" axe-core@4.14.0 >/dev/null 2>&1 &&
		echo "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af  $dir/axe-core-4.14.0.tgz" | sha256sum --check --status; then
		mkdir -p "$(dirname "$axe")"
		tar -xzOf "$dir/axe-core-4.14.0.tgz" package/axe.min.js >"$axe.part" && mv "$axe.part" "$axe"
	else
		say "axe-core 4.14.0 could not be fetched, or is not the one that was looked at"
	fi
	rm -rf "$dir"
}

has_rabbitmq() { command -v rabbitmq-server >/dev/null || compgen -G "$root/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server" >/dev/null; }

has_faketime() { compgen -G "$root/usr/lib/*/faketime/libfaketime.so.1" >/dev/null; }

has_psycopg2() { "$root/usr/bin/python3" -c 'import psycopg2' 2>/dev/null; }

purpose=${1:-}
missing_packages() {
	has_postgres || echo postgresql
	has_redis || echo redis-server
}

# What makes a proof harder but is not needed for it: the runs say when they have to do without.
helpful_packages() {
	command -v apt-get >/dev/null || return 0
	case $purpose in
	test)
		has_chromium || echo chromium-headless-shell
		has_rabbitmq || echo rabbitmq-server
		has_pgbouncer || echo pgbouncer
		# Where the page must be tested, so must its accessibility.
		[ -z "${OUTBOXCTL_REQUIRE_BROWSER:-}" ] || [ -s "$axe" ] || command -v npm >/dev/null || echo npm
		;;
	torture | scoreboard) has_faketime || echo libfaketime ;;
	pictures) has_psycopg2 || echo python3-psycopg2 ;;
	esac
	[ "$purpose" != scoreboard ] || has_pgbouncer || echo pgbouncer
}

# as_root runs its arguments with the rights to install packages, or explains what is in the way.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! command -v sudo >/dev/null; then
		die "installing packages needs root, and sudo is not installed" "as root: apt-get install $wanted"
	elif [ -t 0 ]; then
		sudo "$@"
	else
		# Without a terminal a password prompt would hang a pipeline for ever.
		sudo -n "$@" || die "sudo cannot run here without a password" "run once by hand: sudo apt-get install $wanted"
	fi
}

# A package that starts its own server would take port 5432 or 6379 and memory for nothing: outboxctl
# starts private servers. policy-rc.d is Debian's switch for that; one that exists is left alone.
policy=$root/usr/sbin/policy-rc.d
hold_services() {
	[ -e "$policy" ] && return 0
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	trap release_services EXIT
	as_root chmod 755 "$policy"
}
release_services() { as_root rm -f "$policy"; }

install_with_apt() {
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
	say "not on this machine: $wanted. Installing from the system's packages (apt-get)"
	hold_services
	# One unreachable third-party source makes update fail although the packages are to be had.
	as_root "${apt[@]}" update >&2 || say "apt-get update did not finish; trying the install all the same"
	# $wanted is a list of package names: splitting is what is meant.
	# shellcheck disable=SC2086
	as_root "${apt[@]}" install --no-install-recommends $wanted >&2 ||
		die "apt-get did not install $wanted" "install them by hand, then run make again"
	say "installed: $wanted (the services are not started; outboxctl starts its own)"
}

check_go() {
	command -v go >/dev/null ||
		die "Go is not on PATH" "install Go $(sed -n 's/^go //p' go.mod) or newer: https://go.dev/doc/install"
	# An old go with GOTOOLCHAIN=local refuses every command in this module; its own words are the best message.
	go list -m >/dev/null || die "this Go cannot build the module: $(go version)" "install Go $(sed -n 's/^go //p' go.mod) or newer"
}

cd "$(dirname "$0")/.."
check_go

wanted=$(missing_packages | paste -sd' ' -)
if [ -n "$wanted" ]; then
	if [ "$(uname -s)" = Darwin ]; then
		die "not on this machine: $wanted" "brew install postgresql@17 redis"
	elif command -v apt-get >/dev/null; then
		install_with_apt
	else
		name=$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$root/etc/os-release" 2>/dev/null || true)
		die "not on this machine: $wanted" \
			"${name:-this system} has no apt-get: install the PostgreSQL server (initdb, postgres) and Redis $min_redis or newer with its own tool"
	fi
	left=$(missing_packages | paste -sd' ' -)
	[ -z "$left" ] || die "still not found after the installation: $left" "look where the package put initdb, postgres and redis-server, and add it to PATH"
fi

wanted=$(helpful_packages | paste -sd' ' -)
if [ -n "$wanted" ]; then
	(install_with_apt) || say "going on without $wanted"
fi

if [ "$purpose" = test ]; then
	has_chromium || say "no Chromium here: the journeys through the web page are skipped"
	has_rabbitmq || say "no RabbitMQ here: what publishes to it is not tested"
	[ -s "$axe" ] || fetch_axe
fi

major=$(redis_major)
if [ -n "$major" ] && [ "$major" -lt "$min_redis" ]; then
	die "redis-server is version $major, and outboxctl needs $min_redis or newer" "https://redis.io/docs/latest/operate/oss_and_stack/install/"
fi
