// SPDX-License-Identifier: Apache-2.0
#include "head_of_line/load.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

namespace head_of_line {

using experiment::quantile;
using experiment::seconds_now;

namespace {

constexpr std::size_t most_waiting = 2000;

std::vector<double> poisson(double rate, double seconds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  std::vector<double> at;
  for (double t = gap(random); t < seconds; t += gap(random)) at.push_back(t);
  return at;
}

void drain(server& s, std::size_t left) {
  std::vector<std::uint32_t> ended;
  while (left > 0) {
    ended.clear();
    s.poll(ended);
    left -= std::min(left, ended.size());
  }
}

/// With an empty GPU before each job: at any load above, two may overlap.
double p99_alone(server& s) {
  constexpr std::size_t jobs = 200;
  std::vector<double> latency;
  std::vector<std::uint32_t> ended;
  for (std::size_t i = 0; i < jobs; ++i) {
    const double start = seconds_now();
    s.submit(0);
    for (ended.clear(); ended.empty();) s.poll(ended);
    latency.push_back(1e6 * (seconds_now() - start));
  }
  return quantile(latency, 0.99);
}

} // namespace

double measure_capacity(server& s, const job_shape& job, std::size_t backlog, double seconds) {
  std::vector<std::uint32_t> ended;
  std::size_t in_system = 0;
  std::size_t counted = 0;
  const double start = seconds_now();
  const double from = start + seconds / 3;
  const double until = start + seconds;
  double now = start;
  for (; now < until; now = seconds_now()) {
    for (; in_system < backlog; ++in_system) s.submit(0);
    ended.clear();
    s.poll(ended);
    in_system -= ended.size();
    if (now >= from) counted += ended.size();
  }
  drain(s, in_system);
  return static_cast<double>(counted) * job.job_us() * 1e-6 / (now - from);
}

outcome measure_load(server& s, const job_shape& job, double offered, double seconds) {
  const double rate = offered / (job.job_us() * 1e-6);
  const std::vector<double> arrivals =
      poisson(rate, seconds, 0x5eed + static_cast<std::uint64_t>(1000 * offered));
  std::vector<double> latency(arrivals.size(), -1);
  outcome out;
  out.offered = offered;
  const std::uint64_t before = s.submissions();
  std::vector<std::uint32_t> ended;
  std::size_t next = 0;
  std::size_t done = 0;
  const double start = seconds_now();
  while (done < arrivals.size() && !out.gave_up) {
    double now = seconds_now() - start;
    while (next < arrivals.size() && arrivals[next] <= now && next - done < most_waiting) {
      s.submit(static_cast<std::uint32_t>(next++));
      now = seconds_now() - start;
    }
    ended.clear();
    s.poll(ended);
    now = seconds_now() - start;
    for (const std::uint32_t job_number : ended) latency[job_number] = now - arrivals[job_number];
    done += ended.size();
    out.gave_up = next - done >= most_waiting;
  }
  const double took = seconds_now() - start;
  for (std::size_t i = 0; i < next; ++i)
    if (latency[i] < 0) latency[i] = took - arrivals[i];
  drain(s, next - done);
  latency.resize(next);
  latency.erase(latency.begin(), latency.begin() + static_cast<std::ptrdiff_t>(next / 20));
  for (double& l : latency) l *= 1e6;
  out.jobs = latency.size();
  out.achieved = static_cast<double>(done) * job.job_us() * 1e-6 / took;
  out.mean_us = latency.empty() ? 0
                                : std::accumulate(latency.begin(), latency.end(), 0.0) /
                                      static_cast<double>(latency.size());
  out.p50_us = quantile(latency, 0.5);
  out.p99_us = quantile(latency, 0.99);
  if (next > 0)
    out.submissions_per_job =
        static_cast<double>(s.submissions() - before) / static_cast<double>(next);
  return out;
}

sweep_result sweep(server& s, const job_shape& job, double seconds, double capacity,
                   experiment::watchdog& dog) {
  sweep_result result;
  const auto point = [&](double load) {
    dog.step("load " + std::to_string(load), seconds + 20);
    result.points.push_back(measure_load(s, job, load, seconds));
    return result.points.back().p99_us;
  };
  dog.step("one job at a time", 30);
  result.p99_low_us = p99_alone(s);
  double good = 0;
  double bad = 0;
  for (const double share : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1}) {
    const double p99 = point(share * capacity);
    if (p99 <= 2 * result.p99_low_us && bad == 0)
      good = share * capacity;
    else if (bad == 0)
      bad = share * capacity;
    if (p99 > 8 * result.p99_low_us) break;
  }
  for (int i = 0; i < 3 && bad > 0; ++i) {
    const double middle = 0.5 * (good + bad);
    (point(middle) <= 2 * result.p99_low_us ? good : bad) = middle;
  }
  result.sustained = good;
  std::ranges::sort(result.points, {}, &outcome::offered);
  return result;
}

} // namespace head_of_line
