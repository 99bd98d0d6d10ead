#!/bin/sh
# From a clone of this repository to `drover bootstrap`: brings what that needs and this
# repository can make. `make bootstrap` calls it, and has built the binary.
#
#   deploy/bootstrap.sh [ARGUMENTS OF drover bootstrap]
#
# PostgreSQL and RabbitMQ come from the system's packages; the plan names what is missing.
set -eu

GO=${GO:-go} DROVER=${DROVER:-bin/drover} VERSION=${VERSION:-latest} ENGINE=${ENGINE-}
[ $# -gt 0 ] || set -- --location local

say() { echo "bootstrap: $*" >&2; }

case $1 in -*) ;; *) exec "$DROVER" bootstrap "$@" ;; esac # status, destroy

location=local image= look=
before=
for argument; do
	if [ "$before" = --location ]; then location=$argument; fi
	case $argument in
	--location=*) location=${argument#*=} ;;
	--image | --image=*) image=given ;;
	--dry-run | --dry-run=true | --help | -h) look=only ;;
	esac
	before=$argument
done

# missing tells whether a program is neither in the cache of servers nor on PATH.
missing() {
	for file in "${XDG_CACHE_HOME:-$HOME/.cache}/drover/$1"-*/"$2"; do
		if [ -x "$file" ]; then return 1; fi
	done
	! command -v "$2" >/dev/null
}

servers() {
	wanted=
	if missing consul consul; then wanted=consul; fi
	if missing openbao bao; then wanted="$wanted openbao"; fi
	[ -n "$wanted" ] || return 0
	say "there is no" $wanted "on this machine: built into the cache of servers, which takes some minutes, once"
	# shellcheck disable=SC2086 # words
	$GO run ./test/servers/fetch $wanted || {
		say "cannot build" $wanted "(output above): put the programs consul and bao on PATH, and run this again"
		exit 1
	}
}

build() {
	if [ -z "$ENGINE" ]; then
		say "the image droverhq/drover:$VERSION was not built: there is neither docker nor podman"
		return 1
	fi
	if ! $ENGINE build -f deploy/Containerfile -t "droverhq/drover:$VERSION" .; then
		say "the image droverhq/drover:$VERSION could not be built (output above)"
		return 1
	fi
	say "the image droverhq/drover:$VERSION is on this machine: the cluster must be able to pull it"
}

if [ -z "$look" ]; then
	if [ "$location" = local ]; then
		servers
		if [ -n "$ENGINE" ]; then build || say "on this machine nothing needs it"; fi
	elif [ -z "$image" ] && ! build; then
		say "on Kubernetes Drover runs from it: build and push it where there is an engine, and name it with --image"
		exit 1
	fi
fi
exec "$DROVER" bootstrap "$@"
