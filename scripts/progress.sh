# SPDX-License-Identifier: Apache-2.0
# Sourced: runs long commands with their output in a log and one line of progress on the screen.

# One line that moves on a terminal; elsewhere a line each time that a fifth more is done.
_progress_show() {
  local text=$1 part=$2
  if [[ -t 1 ]]; then
    local columns
    columns=$(stty size 2>/dev/null <&1 | cut -d' ' -f2)
    ((${columns:-0} > 20)) || columns=80
    printf '\r\033[K\033[1m==>\033[0m %.*s' "$((columns - 5))" "$text"
  elif ((part > _progress_part)); then
    _progress_part=$part
    printf '==> %s\n' "$text"
  fi
}

# What the log says of how far its command is, as `done total`: ninja's status, ctest's, or apt-get's in per cent.
_progress_read() {
  tail -c 8192 "$1" 2>/dev/null | tr '\r' '\n' | sed -nE \
    -e 's|^\[([0-9]+)/([0-9]+)[^]]*\].*|\1 \2|p' \
    -e 's|^ *([0-9]+)/([0-9]+) Test .*|\1 \2|p' \
    -e 's/^(dl|pm)status:[^:]*:([0-9]+)[.0-9]*:.*/\2 100/p' | tail -n 1 2>/dev/null
}

_progress_time() {
  if (($1 < 60)); then echo "less than 1 min left"; else echo "about $((($1 + 30) / 60)) min left"; fi
}

# Shows how far the command behind LOG is, until its end kills this.
_progress_watch() {
  local what=$1 log=$2 started=$SECONDS first= last= count total elapsed text
  while kill -0 $$ 2>/dev/null; do
    read -r count total < <(_progress_read "$log") || { count=0; total=0; }
    text=$what
    if ((total > 1)); then
      # The rate since the first count of this step.
      if [[ -z $first ]] || ((count < last)); then first=$count; started=$SECONDS; fi
      last=$count
      elapsed=$((SECONDS - started))
      text="$what: $count of $total"
      ((elapsed < 5 || count <= first)) ||
        text+=", $(_progress_time $((elapsed * (total - count) / (count - first))))"
    fi
    _progress_show "$text" $((total > 1 ? count * 5 / total : 0))
    sleep 0.5
  done
}

# run_logged WHAT LOG COMMAND...: the command's status. It runs in the foreground, so interrupts and passwords are its own.
run_logged() {
  local what=$1 log=$2 watcher status=0
  shift 2
  : >"$log"
  _progress_part=-1
  _progress_watch "$what" "$log" &
  watcher=$!
  "$@" >>"$log" 2>&1 || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [[ ! -t 1 ]] || printf '\r\033[K'
  return "$status"
}

# tell_failure LOG: the last lines that say something, and what to do about them, on stderr.
tell_failure() {
  local log=$1 from
  from=$(grep -nE -m1 '^FAILED:|^CMake Error|^E: |(fatal )?error:' "$log" | cut -d: -f1)
  {
    if [[ -n $from ]]; then tail -n "+$from" "$log" | head -n 15; else tail -n 15 "$log"; fi | cut -c -200 | sed 's/^/    /'
    if grep -qi 'no space left on device' "$log"; then
      echo "The disk is full: the build needs about 2 GB in $(dirname "$log")/.. ($(df -h --output=avail "$(dirname "$log")" | tail -n 1 | tr -d ' ') free)."
    elif grep -qiE 'killed|out of memory|cannot allocate memory' "$log"; then
      echo "Memory ran out: run it again with one compiler at a time, FARCALL_JOBS=1 ./scripts/$(basename "$0")."
    elif grep -qE 'Could not resolve|Temporary failure|Failed to fetch|Connection (refused|timed out)|No matching distribution' "$log"; then
      echo "A download failed: check the network and the proxy (http_proxy, https_proxy), then run it again."
    elif grep -qE 'No such file or directory|not found' "$log"; then
      echo "Something is missing: ./scripts/setup installs what a build needs; then run it again."
    else
      echo "Run it again: it goes on where it stopped. If it stops there again, report these lines."
    fi
    echo "The whole log: ${log#"$PWD"/}"
  } >&2
}
