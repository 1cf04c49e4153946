#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three projects with two users each share a pool: a gang starts, the queue fills, and a claim that
# takes another's place parks it, which then comes back. In one terminal
#
#     farcall pool dev --hosts 2 --min-run 1 --preempt-grace 10
#
# and in another, with the two addresses that it prints
#
#     examples/pool/team.sh pool://127.0.0.1:PORT http://127.0.0.1:PORT
set -euo pipefail
endpoint=${1:?usage: team.sh pool://HOST:PORT http://HOST:PORT}
export FARCALL_POOL=${2:?usage: team.sh pool://HOST:PORT http://HOST:PORT}
here=$(dirname "$(readlink -f "$0")")
folder=$(mktemp -d)
job=
trap 'if [ -n "$job" ]; then kill "$job" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

say() { printf '\n== %s\n' "$*"; }
as() { # a user, a verb of farcall pool and its words
  farcall pool "$2" "${@:3}" --token-file "$folder/$1"
}
name() { head -n 1 | cut -d ' ' -f 1; }
state() { farcall pool list --json | python3 -c "
import json, sys
print(next(c['state'] for c in json.load(sys.stdin)['claims'] if c['id'] == '$1'))"; }
wait_for() { # a claim and a state
  for _ in $(seq 300); do
    if [ "$(state "$1")" = "$2" ]; then return; fi
    sleep 0.2
  done
  echo "team.sh: $1 is $(state "$1"), not $2" >&2
  exit 1
}

say "projects and users"
farcall pool apply -f "$here/team.yaml"
farcall pool project list
for user in alice ben chen dana emil; do
  farcall pool token new "$folder/$user" --user "$user" >/dev/null
done
mebibytes=$(farcall pool list --hosts --json | python3 -c "
import json, sys
print(min(int(g['memory_bytes']) for h in json.load(sys.stdin)['hosts'] for g in h['gpus']) >> 20)")
part=$((mebibytes * 45 / 100))MiB

say "ben's gang starts on both hosts"
gang=$(as ben request --project training --gang 2 --mem "$part" | tee /dev/stderr | name)
farcall pool env "$gang" --rank 1

say "alice trains, and ben has a job of his own"
trains=$(as alice request --project training --preemptible --mem "$part" | tee /dev/stderr | name)
# On the loopback pool:// asks for no token, and REST for none but takes those that are shown.
farcall run --endpoint "$endpoint" --claim "$trains" -- \
  python3 "$here/hold_gpu.py" >"$folder/job.out" 2>"$folder/job.err" &
job=$!
as ben request --project training --mem "$part" --lifetime 3600
wait_for "$trains" active

say "the queue fills"
as dana request --project students --mem "$part" --keep --wait 0 || true
emil=$(as emil request --project students --mem "$part" --keep --wait 0 | tee /dev/stderr | name)
farcall pool queue
farcall pool explain "$emil"

say "chen's inference takes back what its project deserves"
sleep 2
infers=$(as chen request --project inference --mem "$part" --share 50% --keep --wait 0 |
  tee /dev/stderr | name)
wait_for "$trains" preempting
farcall pool explain "$trains"
farcall pool explain "$infers"
wait_for "$trains" parked
wait_for "$infers" bound
farcall pool queue
farcall pool explain "$trains"

say "chen is done, and alice's job goes on where it was"
as chen release "$infers"
wait_for "$trains" active
before=$(wc -l <"$folder/job.out")
for _ in $(seq 100); do
  if [ "$(wc -l <"$folder/job.out")" -gt $((before + 1)) ]; then break; fi
  sleep 0.2
done
tail -n 1 "$folder/job.out"
cat "$folder/job.err"
kill -0 "$job"
farcall pool list
