#!/bin/sh
# Runs a command with buildah, which builds images:
#
#   test/with-buildah.sh go test -tags e2e ./test/chart
#
# If it is not installed, root installs it. Where it cannot be had the command runs with
# DROVER_TEST_NO_BUILDAH=1, except with CI=true, which fails.
set -u

say() { echo "with-buildah: $*" >&2; }

has() { command -v buildah >/dev/null 2>&1; }

if [ "${DROVER_TEST_NO_BUILDAH:-}" != 1 ] && ! has && ! { "$(dirname "$0")/install.sh" buildah && has; }; then
	reason="no buildah: it is not installed (apt-get install -y --no-install-recommends buildah)"
	if [ "${CI:-}" = true ]; then
		say "$reason. CI=true wants it."
		exit 1
	fi
	say "$reason. Its tests do not run; the summary says so again."
	export DROVER_TEST_NO_BUILDAH=1
fi

exec "$@"
