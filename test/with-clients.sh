#!/bin/sh
# Runs a command for whose tests there are the clients of kas-fleet-manager:
#
#   test/with-clients.sh go test ./test/clients
#
# The Go SDK comes into Go's module cache, the JavaScript SDKs (npm) and the rhoas
# command line (built with Go) into $XDG_CACHE_HOME/drover. Where one cannot be had the
# command runs with DROVER_TEST_NO_GOSDK=1, DROVER_TEST_NO_JSSDK=1 or
# DROVER_TEST_NO_RHOAS=1, except with CI=true, which fails.
#
# DROVER_TEST_SYNC_JAR names the quarkus-run.jar of a built sync module of
# kas-fleetshard, which no registry has. Without it the command runs with
# DROVER_TEST_NO_SYNC=1, with CI=true too: nobody can fetch it.
set -u

RHOAS=v0.53.0
JSSDK=1.0.2
GO=${GO:-go}

say() { echo "with-clients: $*" >&2; }

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/drover
mkdir -p "$cache"

missing() {
	tail -n 5 "$log" >&2
	if [ "${CI:-}" = true ]; then
		say "no $1. CI=true wants every client."
		exit 1
	fi
	say "no $1. Its tests do not run; the summary says so again."
}

# bring_rhoas builds from the module's own directory: "go install" would ask for
# a list of versions, which not every proxy has.
bring_rhoas() {
	say "building rhoas $RHOAS (this takes minutes, once)"
	dir=$(cd "$cache" && "$GO" mod download -json "github.com/redhat-developer/app-services-cli@$RHOAS" 2>"$log" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	[ -n "$dir" ] && (cd "$dir" && CGO_ENABLED=0 "$GO" build -mod=readonly -buildvcs=false -o "$cache/rhoas-$RHOAS/rhoas.new" ./cmd/rhoas) >"$log" 2>&1 &&
		mv "$cache/rhoas-$RHOAS/rhoas.new" "$cache/rhoas-$RHOAS/rhoas"
}

bring_jssdk() {
	say "fetching the JavaScript SDKs $JSSDK"
	rm -rf "$cache/jssdk-$JSSDK" "$cache/jssdk-$JSSDK.new"
	mkdir -p "$cache/jssdk-$JSSDK.new" && cp test/clients/jssdk/package.json "$cache/jssdk-$JSSDK.new/" &&
		(cd "$cache/jssdk-$JSSDK.new" && npm install --no-audit --no-fund --ignore-scripts) >"$log" 2>&1 &&
		mv "$cache/jssdk-$JSSDK.new" "$cache/jssdk-$JSSDK"
}

if command -v flock >/dev/null 2>&1; then
	exec 9>"$cache/clients.lock"
	flock 9
fi
if [ "${DROVER_TEST_NO_GOSDK:-}" != 1 ] && ! (cd test/clients/gosdk && "$GO" test -count=1 -run '^$' ./...) >"$log" 2>&1; then
	missing "Go SDK: it cannot be fetched (cd test/clients/gosdk && go mod download)"
	export DROVER_TEST_NO_GOSDK=1
fi
if [ "${DROVER_TEST_NO_JSSDK:-}" != 1 ] && ! { [ -d "$cache/jssdk-$JSSDK/node_modules/@rhoas" ] && command -v node >>"$log" 2>&1 || bring_jssdk; }; then
	missing "JavaScript SDKs: they cannot be fetched (apt-get install -y nodejs npm)"
	export DROVER_TEST_NO_JSSDK=1
fi
if [ "${DROVER_TEST_NO_RHOAS:-}" != 1 ] && ! { [ -x "$cache/rhoas-$RHOAS/rhoas" ] || bring_rhoas; }; then
	missing "rhoas: it cannot be built (output above)"
	export DROVER_TEST_NO_RHOAS=1
fi
if [ -z "${DROVER_TEST_SYNC_JAR:-}" ]; then
	export DROVER_TEST_NO_SYNC=1
elif ! { [ -r "$DROVER_TEST_SYNC_JAR" ] && command -v java; } >"$log" 2>&1; then
	say "DROVER_TEST_SYNC_JAR is $DROVER_TEST_SYNC_JAR, which cannot be read, or there is no java to run it (apt-get install -y openjdk-17-jre-headless)"
	exit 1
fi
exec 9>&-
rm -f "$log"
exec "$@"
