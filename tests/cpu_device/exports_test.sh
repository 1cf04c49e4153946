#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A libcuda.so.1 of ours exports the API's names, every one of them, and nothing else.
# Usage: exports_test.sh LIBRARY NAMES
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${NM:-nm}" -D --defined-only "$1" | awk '{print $NF}' | sed 's/@.*//' | sort -u >"$work/exported"
grep -oE '^cu[A-Za-z0-9_]+' "$2" | sort -u >"$work/names"
if ! missing=$(comm -13 "$work/exported" "$work/names") || [ -n "$missing" ]; then
  echo "not exported: $missing"
  exit 1
fi
extra=$(grep -vE '^cu[A-Z]' "$work/exported" || true)
if [ -n "$extra" ]; then
  echo "exported, but no API name: $extra"
  exit 1
fi
echo "$(wc -l <"$work/exported") names exported, $(wc -l <"$work/names") of them on the list"
