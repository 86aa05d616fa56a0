#!/usr/bin/env bash
# Runs every fuzz target of the root module for the given time, one after the other. Ends at the first finding. With a
# seed in SEED, a commit gets the same inputs each time, as far as the speed of the machine allows.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: fuzz.sh TIME, such as 60s}
only=${2:-.}
workers=2
if [ -n "${SEED:-}" ]; then
	workers=1 # two would try the same inputs
	export GODEBUG="${GODEBUG:+$GODEBUG,}fuzzseed=$SEED"
fi
log=$(mktemp)
trap 'rm "$log"' EXIT

# By default an interesting input is made smaller for up to a minute, in which nothing else is tried: a target with a
# large seed spends all its time on that. A few tries are enough for inputs that are no findings.
run() {
	go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel "$workers" 2>&1 | tee "$log"
}

grep -rnE --include='*_test.go' --exclude-dir={conformance,bench,tools} '^func Fuzz[A-Za-z0-9]+\(f \*testing\.F\)' . |
	sed -E 's#^(\./)?([^:]*)/[^/:]+:[0-9]+:func (Fuzz[A-Za-z0-9]+).*#\2 \3#' | sort -u | grep -E "$only" |
	while read -r folder target; do
		printf '== %s %s\n' "$folder" "$target"
		run "$folder" "$target" && continue
		# Go before 1.27 can report the end of -fuzztime as a failure (go.dev/issue/75804). A finding has an input.
		if grep -qE '^ +context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic:|hung or terminated' "$log"; then
			printf 'no finding: the time of %s ended while an input was tried\n' "$target"
			continue
		fi
		exit 1
	done
