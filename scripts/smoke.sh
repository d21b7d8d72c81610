#!/usr/bin/env bash
# Runs the embedded stack with demo traffic until it ends by itself, in a folder of its own, and asks another process
# meanwhile whether events move. It fails when nothing was published or when the run does not end cleanly.
set -euo pipefail
cd "$(dirname "$0")/.."

run_for=${SMOKE_FOR:-20s}
state=$(mktemp -d)
chmod 755 "$state" # the servers run as another user when we are root
export OUTBOXCTL_DEV_STATE_DIR=$state
# A stack of our own: servers configured in this shell must not be touched by a demo.
unset DATABASE_URL REDIS_URL PUBSUB_EMULATOR_HOST GOOGLE_CLOUD_PROJECT
unset OUTBOXCTL_DATABASE_URL OUTBOXCTL_REDIS_URL OUTBOXCTL_PUBSUB_EMULATOR OUTBOXCTL_PUBSUB_PROJECT

bin/outboxctl dev --demo --for "$run_for" &
dev=$!
trap 'kill "$dev" 2>/dev/null && wait "$dev" || true; rm -rf "$state"' EXIT

# published prints how many events the stack says it has published; nothing while it is not up yet.
published() { bin/outboxctl stats -o json 2>/dev/null | sed -n 's/.*"last1h": *\([0-9][0-9]*\).*/\1/p'; }

seen=0
while kill -0 "$dev" 2>/dev/null; do
	now=$(published || true)
	[ -z "$now" ] || seen=$now
	sleep 1
done

code=0
wait "$dev" || code=$?
if [ "$code" -ne 0 ]; then
	echo "smoke: outboxctl dev ended with exit code $code" >&2
	exit 1
fi
if [ "$seen" -eq 0 ]; then
	echo "smoke: the stack ran for $run_for and published nothing" >&2
	exit 1
fi
echo "smoke: $seen events published, the stack ended by itself"
