# shellcheck shell=bash
# Shared by the scripts of .ci: counting, phases, packages. Sourced, not run.

CACHE=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/vitrine-ci
mkdir -p "$CACHE"

# One word per line: passed, failed or skipped, and again beside the passed of a
# test that failed before. A file, since phases are processes of their own.
if [ -z "${COUNTS:-}" ]; then
	COUNTS=$(mktemp)
	export COUNTS
fi

count() { echo "$1" >>"$COUNTS"; }

# phase NAME COMMAND...: runs it, unless PHASES names others, and says how long
# it took and how much of the processors. A command that fails without having
# counted a failure counts as one.
phase() {
	local name=$1 all=$COUNTS COUNTS status=0
	[[ -z ${PHASES:-} || " $PHASES " == *" $name "* ]] || return 0
	shift
	printf '\n=== %s\n' "$name"
	COUNTS=$(mktemp)
	export COUNTS
	local TIMEFORMAT="--- $name: %0R s, %0U + %0S s of the processors"
	# In a process of its own, where errexit holds: a function called
	# where its status is looked at would run on past its failures.
	set +e
	{ time (set -e; "$@" 2>&1); } 2>&1
	status=$?
	set -e
	if [ "$status" -ne 0 ]; then
		echo "FAILED $name ($status)"
		grep -q '^failed' "$COUNTS" || count failed
	fi
	cat "$COUNTS" >>"$all"
	rm -f "$COUNTS"
}

# checked COMMAND...: one check, counted.
checked() {
	"$@"
	count passed
}

# check WHAT COMMAND...: one check of several in a phase: counted, and the
# phase goes on. The output is shown when it fails.
check() {
	local what=$1 log status began=$SECONDS
	shift
	log=$(mktemp)
	set +e
	(set -e; "$@") >"$log" 2>&1
	status=$?
	set -e
	if [ "$status" -eq 0 ]; then
		echo "ok    $what ($((SECONDS - began)) s)"
		count passed
	else
		echo "FAIL  $what (status $status)"
		sed 's/^/      /' "$log" | tail -n 60
		count failed
	fi
	rm -f "$log"
	return 0
}

# outcomes LIMIT NEVER AGAIN...: counts the tests in the output of go test -json on its standard input.
# One that failed, or took more than LIMIT seconds, runs once more, by itself, with the command AGAIN:
# on two processors shared by all packages a test can miss its bound of time without a defect. If it
# passes then, it counts as passed and as again. Failures of the package NEVER, whose campaign is
# random, are never forgiven, nor are more than three. A skip counts as failed, but with BARE=true one
# that says why.
outcomes() {
	local limit=$1 never=$2 events outcome package name seconds said failed
	shift 2
	events=$(mktemp)
	tee "$events" | gotestsum --no-color --format pkgname-and-test-fails --hide-summary=all --raw-command -- cat || true
	jq -jR 'fromjson? | select(.Action == "build-output").Output' <"$events"
	jq -nrR --argjson limit "$limit" --argjson bare "${BARE:-false}" -f .ci/outcomes.jq <"$events" >"$events.all"
	sed -n '/^skipped/p' "$events.all" | cut -f 5 | sort | uniq -c | sed 's/^/skip  /'
	sort -t $'\t' -k 4nr "$events.all" | awk -F '\t' 'NR <= 10 {printf "slow  %5.1fs %s %s\n", $4, $2, $3}'
	failed=$(grep -c ^failed "$events.all" || true)
	while IFS=$'\t' read -r outcome package name seconds said; do
		if [[ $outcome == passed || $outcome == skipped ]]; then
			count "$outcome"
		elif [[ $outcome == certain ]] || [[ $outcome == failed && ( $package == "$never" || $failed -gt 3 ) ]]; then
			echo "FAIL  $package $name${said:+ skipped: $said}"
			count failed
		elif "$@" -timeout "${limit}s" -run "^$name\$" "$package" >"$events.again" 2>&1 </dev/null; then
			echo "AGAIN $package $name $outcome beside the others after $seconds s, and passed by itself"
			count passed
			count again
		else
			cat "$events.again"
			echo "FAIL  $package $name $outcome again"
			count failed
		fi
	done <"$events.all"
	rm -f "$events"*
	grep -q ^passed "$COUNTS" && ! failing
}

# failing: has a check of this phase failed?
failing() { grep -q '^failed' "$COUNTS"; }

finish() {
	local passed again failed skipped
	again=$(grep -c '^again' "$COUNTS" || true)
	passed=$(grep -c '^passed' "$COUNTS" || true)
	failed=$(grep -c '^failed' "$COUNTS" || true)
	skipped=$(grep -c '^skipped' "$COUNTS" || true)
	rm -f "$COUNTS"
	printf '\n%d s in all\n%d passed%s, %d failed%s\n' "$SECONDS" "$passed" \
		"$([ "$again" -eq 0 ] || echo " ($again when run again)")" "$failed" \
		"$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
	exit $((failed > 0))
}

# release VERSION OS/ARCH...: makes a release in the folder RELEASES, unless another
# phase has made it there or is about to, and says where it is.
release() {
	local folder=$RELEASES/$1 lock
	exec {lock}>"$folder.lock"
	flock "$lock"
	[ -e "$folder/vitrine_${1}_SHA256SUMS" ] || .ci/release "$1" "$folder" "${@:2}" >&2 || return
	exec {lock}>&-
	echo "$folder"
}

# inventory: all that the engine holds, to be compared when everything should be gone again.
inventory() {
	{ docker ps -aq; docker volume ls -q; docker network ls -q; docker image ls -aq; docker info -f '{{.Swarm.LocalNodeState}}'; } | sort -u
}

# build_tools builds the tools of .ci/tools and says in which folder they are. Within $(...) errexit
# is off, so a failure is returned: those of an earlier run would be used.
build_tools() {
	CGO_ENABLED=0 GOFLAGS="-trimpath -gcflags=all=-dwarf=false" go build -C .ci/tools -buildvcs=false -o "$CACHE/tools/" tool ./... >&2 || return
	echo "$CACHE/tools"
}

# not COMMAND...: fails if that succeeds. A bare ! would not end a function under errexit.
not() { ! "$@"; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

MISSING=()

# need COMMAND PACKAGE...: marks the packages for apt_install if the command is not there.
need() { command -v "$1" >/dev/null || MISSING+=("${@:2}"); }

# apt_install installs what need has found missing. Debian's packages start
# their service at once; the tests start redis-server themselves, so the
# installation is told not to. Phases beside each other install in turn.
apt_install() {
	[ ${#MISSING[@]} -gt 0 ] || return 0
	local lock policy=/usr/sbin/policy-rc.d made=
	exec {lock}>"$CACHE/installing"
	flock "$lock"
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		made=yes
	fi
	local status=0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q || status=$?
	if [ "$status" -eq 0 ]; then
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -q -y --no-install-recommends "${MISSING[@]}" || status=$?
	fi
	[ -z "$made" ] || as_root rm -f "$policy"
	exec {lock}>&-
	MISSING=()
	return "$status"
}
