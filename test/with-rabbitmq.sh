#!/bin/sh
# Runs a command with one RabbitMQ node for all of its tests:
#
#   test/with-rabbitmq.sh go test ./...
#
# DROVER_TEST_RABBITMQ names a broker to use instead (amqp://user:password@host:port).
# Without one, the server that is installed is started on free loopback ports in a
# temporary directory; if none is installed, root installs it. Tests that kill their
# broker start another. Where there can be none the command runs with
# DROVER_TEST_NO_RABBITMQ=1, except with CI=true, which fails.
set -u

say() { echo "with-rabbitmq: $*" >&2; }

has_server() {
	for ctl in /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmqctl /opt/homebrew/sbin/rabbitmqctl /usr/local/sbin/rabbitmqctl; do
		[ -e "$ctl" ] && return
	done
	return 1
}

if [ -n "${DROVER_TEST_RABBITMQ:-}" ] || [ "${DROVER_TEST_NO_RABBITMQ:-}" = 1 ]; then
	exec "$@"
fi
if ! has_server && ! { "$(dirname "$0")/install.sh" rabbitmq-server && has_server; }; then
	reason="it is not installed (apt-get install -y rabbitmq-server)"
else
	run=$(mktemp -d "${TMPDIR:-/tmp}/drover-with-rabbitmq.XXXXXX") || exit 1
	trap 'rm -rf "$run"' EXIT
	# Not by "go run", which would hide how the command ended.
	"${GO:-go}" build -o "$run/run" ./test/rabbitmq/run || exit 1
	"$run/run" "$@"
	rc=$?
	[ "$rc" = 99 ] || exit "$rc"
	reason="it could not be started (output above)"
fi
if [ "${CI:-}" = true ]; then
	say "no RabbitMQ: $reason. CI=true wants every server."
	exit 1
fi
say "no RabbitMQ: $reason. Its tests do not run; the summary says so again."
DROVER_TEST_NO_RABBITMQ=1
export DROVER_TEST_NO_RABBITMQ
"$@"
