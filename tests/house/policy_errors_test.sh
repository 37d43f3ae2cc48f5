#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# policy_errors_test.sh CXX INCLUDE: the first error for a policy that lacks a member names that member.
set -u
cxx=$1 include=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/whole.cpp" <<'CPP'
#include <gsched/gsched.hpp>
using namespace gsched;
using order = job_order<&job::arrival>;
struct mine {
  static constexpr std::string_view name = "mine";
  using per_job = order::per_job;
  void enqueue(per_job& j, time_point) noexcept { waiting.insert(j); }
  order::per_job* try_pick(time_point) noexcept { return waiting.pop_front(); }
  void erase(order::per_job& j) noexcept { waiting.erase(j); }
  bool wants_preempt(const order::per_job&, time_point) const noexcept { return false; }
  duration slice(const order::per_job&) const noexcept { return run_to_completion; }
  std::size_t size() const noexcept { return waiting.size(); }
  order waiting;
};
void f(null_device& d, mine& p, aggregate_accountant& a, silent_listener& l) {
  dispatcher scheduler(d, p, a, l);
}
CPP
failed=0
"$cxx" -std=c++20 -fsyntax-only -I"$include" "$work/whole.cpp" || { echo "the whole policy does not compile"; failed=1; }
for member in try_pick erase size; do
  grep -v "$member(" "$work/whole.cpp" >"$work/lacks.cpp"
  first=$("$cxx" -std=c++20 -fsyntax-only -I"$include" "$work/lacks.cpp" 2>&1 | grep -m 1 'error:')
  case $first in
  *"a policy has: "*"$member("*) ;;
  *) echo "without $member the first error is: $first"; failed=1 ;;
  esac
done
exit $failed
