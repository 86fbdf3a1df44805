#!/usr/bin/env bash
# Sections 4.8 to 4.10 of NetApp's TR-4858, by the commands that it prints, on the lab's 16 simulated GPUs.
#
# A second pool of 16 simulated GPUs is attached and stays idle: shares are those of a pool, never of all GPUs together.
# After each command the script waits until the four teams hold, and have queued, what the paper says. It ends with 0
# only if every state came about.
#
# It needs a product that has just been started (`make up`), and a site admin's token: `nearline login`, or NEARLINE_URL
# and NEARLINE_TOKEN. Jobs have names that are used once, so a product is good for one walk.
set -euo pipefail

runai() { nearline "$@"; }
LIMIT_S=${LIMIT_S:-30}
QUICKSTART=gcr.io/run-ai-demo/quickstart

# What teams a, b, c and d hold of a pool and how many of their jobs wait, as "4 2 2 8 / 0 1 1 0".
state_of() {
  nearline queue list --pool "$1" | awk '
    $1 ~ /^team-[abcd]$/ { held[$1] = $4; queued[$1] = $NF }
    END { print held["team-a"], held["team-b"], held["team-c"], held["team-d"], "/",
                queued["team-a"], queued["team-b"], queued["team-c"], queued["team-d"] }'
}

# Wait until the default pool is as the paper says. A state that is wrong for good fails after LIMIT_S seconds.
expect() {
  local deadline=$((SECONDS + LIMIT_S)) found
  until found=$(state_of default) && [ "$found" = "$1" ]; do
    if [ $SECONDS -ge $deadline ]; then
      echo "FAILED: $found, but the paper says $1" >&2
      exit 1
    fi
    sleep 0.3
  done
  printf '  %-32s as in the paper\n' "$found"
}

# Run a command of the paper, and expect a state.
step() {
  local output
  printf '%s\n' "$2"
  output=$(eval "$2" 2>&1) || { printf 'FAILED: %s\n' "$output" >&2; exit 1; }
  expect "$1"
}

interactive_nodes() { runai list -A 2>/dev/null | awk '$6 == "Interactive" { print $1, $4 }'; }

echo '== Setting: two pools of 16 simulated GPUs; quotas 4, 2, 2 and 8 in the default one'
nearline compute attach spare --simulated 2
for team in team-a:4 team-b:2 team-c:2 team-d:8; do
  nearline project create "${team%:*}" >/dev/null
  nearline queue set "${team%:*}" --gpus "${team#*:}"
done
expect '0 0 0 0 / 0 0 0 0'

echo '== 4.8 High utilisation with over-quota'
step '1 0 0 0 / 0 0 0 0' 'runai submit a-1-1-jupyter -i jupyter/base-notebook -g 1 --interactive --service-type=ingress --port 8888 --args="--NotebookApp.base_url=team-a-test-ingress" --command=start-notebook.sh -p team-a'
step '2 0 0 0 / 0 0 0 0' "runai submit a-1-g -i $QUICKSTART -g 1 -p team-a"
step '4 0 0 0 / 0 0 0 0' "runai submit a-2-gg -i $QUICKSTART -g 2 -p team-a"
step '4 0.6 0 0 / 0 0 0 0' "runai submit b-1-g06 -i $QUICKSTART -g 0.6 --interactive -p team-b"
step '4 1 0 0 / 0 0 0 0' "runai submit b-2-g04 -i $QUICKSTART -g 0.4 --interactive -p team-b"
step '4 2 0 0 / 0 0 0 0' "runai submit b-3-g -i $QUICKSTART -g 1 -p team-b"
step '4 4 0 0 / 0 0 0 0' "runai submit b-4-gg -i $QUICKSTART -g 2 -p team-b"
step '4 4 0.5 0 / 0 0 0 0' "runai submit c-1-g05 -i $QUICKSTART -g 0.5 --interactive -p team-c"
step '4 4 0.8 0 / 0 0 0 0' "runai submit c-2-g03 -i $QUICKSTART -g 0.3 --interactive -p team-c"
step '4 4 1 0 / 0 0 0 0' "runai submit c-3-g02 -i $QUICKSTART -g 0.2 --interactive -p team-c"
step '4 4 3 0 / 0 0 0 0' "runai submit c-4-gg -i $QUICKSTART -g 2 -p team-c"
step '4 4 4 0 / 0 0 0 0' "runai submit c-5-g -i $QUICKSTART -g 1 -p team-c"
step '4 4 4 4 / 0 0 0 0' "runai submit d-1-gggg -i $QUICKSTART -g 4 -p team-d"
notebooks=$(interactive_nodes)

echo '== 4.9 Basic fairness: team-d claims its quota; team-c and team-b give one job back each'
step '4 4 2 6 / 0 0 1 0' "runai submit d-2-gg -i $QUICKSTART -g 2 -p team-d"
step '4 2 2 8 / 0 1 1 0' "runai submit d-3-gg -i $QUICKSTART -g 2 -p team-d"

echo '== 4.10 Over-quota fairness: what team-d leaves is shared as 4 to 2 to 2'
step '4 2 2 8 / 1 1 1 0' "runai submit a-3-gg -i $QUICKSTART -g 2 -p team-a"
step '4 2 2 8 / 2 1 1 0' "runai submit a-4-gg -i $QUICKSTART -g 2 -p team-a"
step '4 2 2 8 / 2 2 1 0' "runai submit b-5-gg -i $QUICKSTART -g 2 -p team-b"
step '4 2 2 8 / 2 2 2 0' "runai submit c-6-gg -i $QUICKSTART -g 2 -p team-c"
step '8 4 4 0 / 0 1 1 0' 'runai delete -p team-d d-1-gggg d-2-gg d-3-gg'

echo '== Throughout'
[ "$(interactive_nodes)" = "$notebooks" ] || { echo 'FAILED: interactive work has moved' >&2; exit 1; }
echo '  interactive work never moved'
for job in b-4-gg c-4-gg; do
  output=$(runai get "$job" --json)
  [[ $output == *'"evictions": 1,'* ]] || { echo "FAILED: $job did not stop once" >&2; exit 1; }
done
echo '  b-4-gg and c-4-gg stopped once each, and nothing stopped twice'
found=$(state_of spare)
[ "$found" = '0 0 0 0 / 0 0 0 0' ] || { echo "FAILED: the pool spare holds $found" >&2; exit 1; }
echo '  the 16 GPUs of the pool spare stayed idle'
echo 'All states are as in the paper.'
