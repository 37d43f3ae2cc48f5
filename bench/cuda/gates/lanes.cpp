// SPDX-License-Identifier: Apache-2.0
#include "gates/feed.hpp"
#include "gates/run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <random>

namespace gates {

namespace {

/// Polls until a condition holds; the watchdog limits the time.
template <class Stop>
void until(stage& s, bool feeds, Stop stop) {
  while (!stop()) {
    if (feeds) s.feed();
    s.poll();
  }
}

void pass(stage& s, bool feeds, double us) {
  const double end = s.us() + us;
  until(s, feeds, [&] { return s.us() >= end; });
}

/// The time until a lane has stopped; and until it resumes, if requested.
double stop(stage& s) {
  s.yielded = false;
  const double from = s.us();
  s.yield();
  until(s, false, [&] { return s.yielded; });
  return s.us() - from;
}
double go_on(stage& s) {
  s.resumed = false;
  const double from = s.us();
  s.resume();
  until(s, false, [&] { return s.resumed; });
  return s.us() - from;
}

} // namespace

ordered_json measure_latency(const std::string& name, gsched::cuda::program& p,
                             const run_options& o) {
  ordered_json out{{"program", name}};
  fmt::print("{:<32}", name);
  for (const unsigned every : o.every) {
    stage s(o.gpu, every, p);
    std::mt19937_64 random(1);
    std::vector<double> stops;
    std::vector<double> goes;
    pass(s, true, 2000);
    for (unsigned i = 0; i < o.yields; ++i) {
      pass(s, true, static_cast<double>(100 + random() % 100));
      stops.push_back(stop(s));
      pass(s, false, 20);
      goes.push_back(go_on(s));
    }
    until(s, false, [&] { return s.idle(); });
    out["variants"].push_back(
        {{"every", every}, {"yielded_us", summary(stops)}, {"resumed_us", summary(goes)}});
    fmt::print("  every {}: stands after {:5.1f} (p99 {:5.1f}), goes on {:4.1f} ({:4.1f})", every,
               experiment::median(stops), experiment::quantile(stops, 0.99),
               experiment::median(goes), experiment::quantile(goes, 0.99));
    std::fflush(stdout);
  }
  fmt::print("\n");
  return out;
}

ordered_json measure_beside(const std::string& name, gsched::cuda::program& work,
                            gsched::cuda::program& real_time, const run_options& o) {
  enum mode { alone, priorities, yields, modes };
  constexpr const char* called[] = {"alone", "priorities alone", "yields"};
  constexpr double pause_us = 500;
  stage s(o.gpu, o.every.front(), work);
  s.load(real_time);
  std::vector<double> us[modes];
  double busy_us[modes] = {};
  std::uint64_t segments[modes] = {};
  constexpr unsigned warm = 3;
  for (unsigned i = 0; i < o.requests + warm; ++i)
    for (int m = alone; m < modes; ++m) {
      if (m == alone) until(s, false, [&] { return s.idle(); });
      const double began = s.us();
      const std::uint64_t before = s.segments;
      pass(s, m != alone, pause_us + 7 * (i % 50));
      const double from = s.us();
      s.yielded = s.resumed = false;
      if (m == yields) s.yield();
      s.request(real_time.host());
      until(s, m == priorities, [&] { return s.answered; });
      const double took = s.us() - from;
      if (m == yields) {
        until(s, false, [&] { return s.yielded; });
        s.resume();
        until(s, false, [&] { return s.resumed; });
      }
      if (i < warm) continue;
      us[m].push_back(took);
      busy_us[m] += s.us() - began;
      segments[m] += s.segments - before;
    }
  until(s, false, [&] { return s.idle(); });
  ordered_json out{{"program", name}};
  fmt::print("{:<32}", name);
  for (int m = alone; m < modes; ++m) {
    const double rate = 1e6 * static_cast<double>(segments[m]) / busy_us[m];
    out["modes"].push_back(
        {{"mode", called[m]}, {"us", summary(us[m])}, {"best_effort_segments_per_s", rate}});
    fmt::print("  {} {:7.1f} (p99 {:7.1f})", called[m], experiment::median(us[m]),
               experiment::quantile(us[m], 0.99));
    if (m != alone) fmt::print(", {:.0f} segments/s", rate);
  }
  fmt::print("\n");
  std::fflush(stdout);
  return out;
}

} // namespace gates
