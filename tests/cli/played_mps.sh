# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of programs that start an MPS daemon, which define fail() and work, and export WORK=$work.

# A control program that does as it is told: MPS=refuses|stays|silent.
play_mps() {
  mkdir "$work/bin"
  cat >"$work/bin/nvidia-cuda-mps-control" <<'SH'
#!/usr/bin/env bash
there=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
if [ "${1:-}" = -d ]; then
  [ "${MPS:-}" != refuses ] || { echo "no permission for MPS"; exit 1; }
  bash -c 'exec -a nvidia-cuda-mps-control sleep 300' &
  echo $! >"$there"
  echo $! >"$WORK/daemon.number"
else
  read -r command
  [ "$command" != quit ] || [ "${MPS:-}" = stays ] || kill "$(cat "$there")"
  [ "$command" = quit ] || [ "${MPS:-}" != silent ] || sleep 300
fi
SH
  chmod +x "$work/bin/nvidia-cuda-mps-control"
  export PATH=$work/bin:$PATH
}

ended() { # by their numbers in the files: no such process is left
  local f
  for f in "$work"/*.number; do
    [ -e "$f" ] || continue
    grep -q '^State:.[^ZX]' "/proc/$(cat "$f")/status" 2>/dev/null && fail "$(basename "$f") runs still"
    rm -f "$f"
  done
}
