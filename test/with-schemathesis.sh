#!/bin/sh
# Runs a command with Schemathesis, which makes up requests out of OpenAPI documents:
#
#   test/with-schemathesis.sh go test -tags e2e ./test/schemathesis
#
# It comes from PyPI into the user's cache, with the versions of
# test/schemathesis/requirements.txt; DROVER_TEST_SCHEMATHESIS names another one.
# Where it cannot be had the command runs with DROVER_TEST_NO_SCHEMATHESIS=1,
# except with CI=true, which fails.
set -u

say() { echo "with-schemathesis: $*" >&2; }

wanted=$(dirname "$0")/schemathesis/requirements.txt
version=$(sed -n 's/^schemathesis==//p' "$wanted")
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# bring makes the virtual environment; of several processes one does it.
bring() {
	say "fetching Schemathesis $version into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv" >"$log" 2>&1 &&
		"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted" >"$log" 2>&1 && cp "$wanted" "$venv/complete"
}

if [ "${DROVER_TEST_NO_SCHEMATHESIS:-}" != 1 ] && [ -z "${DROVER_TEST_SCHEMATHESIS:-}" ]; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/drover
	venv=$cache/schemathesis-$version
	mkdir -p "$cache"
	if command -v flock >/dev/null 2>&1; then
		exec 9>"$venv.lock"
		flock 9
	fi
	if cmp -s "$wanted" "$venv/complete" || bring; then
		export DROVER_TEST_SCHEMATHESIS="$venv/bin/schemathesis"
	else
		tail -n 5 "$log" >&2
		if [ "${CI:-}" = true ]; then
			say "no Schemathesis: it could not be fetched. CI=true wants it."
			exit 1
		fi
		say "no Schemathesis: it could not be fetched (python3 with venv is needed). Its tests do not run; the summary says so again."
		export DROVER_TEST_NO_SCHEMATHESIS=1
	fi
	exec 9>&-
fi

rm -f "$log"
exec "$@"
