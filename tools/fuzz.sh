#!/usr/bin/env bash
# Runs every fuzz target of the root module for the given time, one after the other. Ends at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: fuzz.sh TIME, such as 60s}
only=${2:-.}

grep -rnE --include='*_test.go' --exclude-dir={conformance,bench,tools} '^func Fuzz[A-Za-z0-9]+\(f \*testing\.F\)' . |
	sed -E 's#^(\./)?([^:]*)/[^/:]+:[0-9]+:func (Fuzz[A-Za-z0-9]+).*#\2 \3#' | sort -u | grep -E "$only" |
	while read -r folder target; do
		printf '== %s %s\n' "$folder" "$target"
		go test "./$folder" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2
	done
