// SPDX-License-Identifier: Apache-2.0
#include "realtime/result.hpp"

#include <algorithm>

namespace realtime {

using namespace gsched;

double throughput_of(const client_result& c, const client_facts& f, duration window) {
  return static_cast<double>(c.in_window) / to_s(window) / f.per_s;
}

run_summary summarise(const options& from, const workload_facts& facts, const run_result& run) {
  constexpr double least_left = 0.01; // of the window: below, a ratio to it says nothing
  run_summary s;
  double normalised = 0, real_time_s = 0, best_effort_s = 0;
  for (std::size_t i = 0; i < run.clients.size(); ++i) {
    const client_result& c = run.clients[i];
    const client_facts& f = facts.clients[i];
    const double each = throughput_of(c, f, run.window);
    s.throughput += each;
    s.over_limit += c.over_limit;
    s.lost += c.lost();
    if (from.work.clients[i].real_time()) {
      s.real_time_throughput += each;
      s.latencies.insert(s.latencies.end(), c.latencies.begin(), c.latencies.end());
      for (const duration d : c.latencies) normalised += to_s(d) / to_s(f.solo);
      real_time_s += static_cast<double>(c.in_window) / f.per_s;
    } else {
      s.best_effort_finished += c.in_window;
      best_effort_s += static_cast<double>(c.in_window) / f.per_s + to_s(c.parts);
    }
  }
  const double window_s = to_s(run.window);
  s.best_effort_per_s = static_cast<double>(s.best_effort_finished) / window_s;
  if (!s.latencies.empty())
    s.normalised_latency = normalised / static_cast<double>(s.latencies.size());
  if (window_s - real_time_s >= least_left * window_s)
    s.work_done = best_effort_s / (window_s - real_time_s);
  return s;
}

const run_result* find(std::span<const run_result> runs, mode m) {
  const auto at =
      std::find_if(runs.begin(), runs.end(), [m](const run_result& r) { return r.how == m; });
  return at == runs.end() ? nullptr : &*at;
}

} // namespace realtime
