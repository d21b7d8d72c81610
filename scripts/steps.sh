# Steps of a pipeline: sourced by .ci/run and .ci/nightly. A step that fails does not stop the others, so that one run tells
# everything that is wrong; the end says how long each took.
set -euo pipefail
exec </dev/null
export CI=${CI:-true}
# Without Chromium the journeys through the web page are skipped, without axe its accessibility; here that is a failure.
export OUTBOXCTL_REQUIRE_BROWSER=1
# The same for what publishes to RabbitMQ, without its server.
export OUTBOXCTL_REQUIRE_RABBITMQ=1

failed=()
took=()

# step TARGET SENTENCE [VAR=VALUE …] makes a target.
step() {
	local target=$1 says=$2 started=$SECONDS verdict=ok
	shift 2
	printf '\n==> make %s: %s\n' "$target" "$says"
	if ! make --no-print-directory "$target" "$@"; then
		verdict=FAILED
		failed+=("$target")
	fi
	took+=("$(printf '%5ds  %-6s  make %s' $((SECONDS - started)) "$verdict" "$target${*:+ $*}")")
	printf '==> make %s: %s (%ds)\n' "$target" "$verdict" $((SECONDS - started))
}

# verdict prints what each step took and exits.
verdict() {
	printf '\n'
	printf '%s\n' "${took[@]}"
	printf '%5ds  in all\n' "$SECONDS"
	if ((${#failed[@]})); then
		printf '==> failed: %s\n' "${failed[*]}"
		exit 1
	fi
	printf '==> all steps passed\n'
}
