// SPDX-License-Identifier: Apache-2.0
#include "block_dispatch/load.hpp"

#include "experiment.hpp"

#include <algorithm>
#include <random>

namespace block_dispatch {

using experiment::seconds_now;

namespace {

constexpr std::size_t most_waiting = 4000;

struct arrival {
  double at = 0;
  unsigned tenant = 0;
};

std::vector<arrival> poisson(const std::array<double, 3>& rates, double seconds,
                             std::uint64_t seed) {
  std::vector<arrival> all;
  for (unsigned t = 0; t < rates.size(); ++t) {
    std::mt19937_64 random(seed * 3 + t);
    std::exponential_distribution<double> gap(rates[t]);
    for (double at = gap(random); at < seconds; at += gap(random)) all.push_back({at, t});
  }
  std::ranges::sort(all, {}, &arrival::at);
  return all;
}

void drain(server& s, std::size_t left) {
  std::vector<std::uint32_t> ended;
  while (left > 0) {
    ended.clear();
    s.poll(ended);
    left -= std::min(left, ended.size());
  }
}

} // namespace

latencies measure_latency(server& s, const std::array<double, 3>& rates, double seconds,
                          std::uint64_t seed) {
  const std::vector<arrival> arrivals = poisson(rates, seconds, seed);
  std::vector<double> took(arrivals.size(), -1);
  std::vector<std::uint32_t> ended;
  latencies out;
  std::size_t next = 0;
  std::size_t done = 0;
  const double start = seconds_now();
  double now = 0;
  while (done < arrivals.size() && !out.gave_up) {
    now = seconds_now() - start;
    while (next < arrivals.size() && arrivals[next].at <= now) {
      s.submit(arrivals[next].tenant, static_cast<std::uint32_t>(next));
      ++next;
    }
    ended.clear();
    s.poll(ended);
    now = seconds_now() - start;
    for (const std::uint32_t job : ended) took[job] = now - arrivals[job].at;
    done += ended.size();
    out.gave_up = next - done >= most_waiting;
  }
  drain(s, next - done);
  for (std::size_t i = next / 20; i < next; ++i) // without the first twentieth
    out.of[arrivals[i].tenant].push_back(1e6 * (took[i] < 0 ? now - arrivals[i].at : took[i]));
  return out;
}

std::array<double, 3> measure_throughput(server& s, const std::array<unsigned, 3>& backlog,
                                         double seconds) {
  std::vector<std::uint32_t> ended;
  std::array<unsigned, 3> in_system{};
  std::array<double, 3> counted{};
  const double start = seconds_now();
  const double from = start + seconds / 3;
  double now = start;
  for (; now < start + seconds; now = seconds_now()) {
    for (unsigned t = 0; t < backlog.size(); ++t)
      for (; in_system[t] < backlog[t]; ++in_system[t]) s.submit(t, t);
    ended.clear();
    s.poll(ended);
    for (const std::uint32_t t : ended) {
      --in_system[t];
      if (now >= from) ++counted[t];
    }
  }
  drain(s, in_system[0] + in_system[1] + in_system[2]);
  for (double& c : counted) c /= now - from;
  return counted;
}

} // namespace block_dispatch
