// SPDX-License-Identifier: Apache-2.0
#include "mps_sms/run.hpp"

#include "experiment.hpp"
#include "mps_sms/part.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mps_sms {

namespace {

namespace cuda = gsched::cuda;
using json = nlohmann::ordered_json;

/// The groups of each share: those whose middle lies in it.
std::vector<std::vector<std::uint32_t>> groups_of(const std::vector<std::uint32_t>& sizes,
                                                  const std::vector<std::uint32_t>& shares) {
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::vector<std::vector<std::uint32_t>> of(shares.size());
  std::size_t at = 0;
  double end = all * shares.front() / 100;
  double begin = 0;
  for (std::uint32_t g = 0; g < sizes.size(); begin += sizes[g++]) {
    while (at < shares.size() && begin + sizes[g] / 2.0 >= end)
      if (++at < shares.size()) end += all * shares[at] / 100;
    if (at < shares.size()) of[at].push_back(g);
  }
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i].empty())
      throw bad_input(
          fmt::format("--shares: {}% have no group of SMs, expected a larger share", shares[i]));
  return of;
}

json answer(const part::held& h) {
  return {{"sms", h.sms}, {"seconds", h.seconds}, {"released", h.released}};
}

/// Does as lines say until they end.
class commands {
public:
  commands(std::vector<std::unique_ptr<part>>& parts, experiment::watchdog& watch)
      : parts_(parts), watch_(watch) {}

  [[nodiscard]] json perform(const std::string& line) {
    std::istringstream in(line);
    std::string what;
    std::size_t which = 0;
    double amount = 0;
    in >> what >> which;
    const bool has_amount = what == "hold" || what == "replay";
    if (has_amount) in >> amount;
    std::string rest;
    if (!in || in >> rest || which >= parts_.size() || (!has_amount && what != "release") ||
        (has_amount && !(amount > 0 && amount <= 600'000)))
      throw bad_input(fmt::format("\"{}\", expected hold PART SECONDS, release PART or replay PART "
                                  "MS, of {} parts",
                                  line, parts_.size()));
    part& p = *parts_[which];
    watch_.step(line, 30 + (what == "replay" ? 20e-3 * amount : amount));
    json said;
    if (what == "hold") {
      p.hold(amount);
      said = {{"holds", which}};
    } else if (what == "release") {
      said = answer(p.release());
    } else {
      const part::replayed r = p.replay(amount);
      said = {{"count", r.us.count},
              {"us", {{"mean", r.us.mean}, {"median", r.us.median}, {"p90", r.us.p90}}},
              {"sms", r.sms}};
    }
    watch_.rest();
    return said;
  }

private:
  std::vector<std::unique_ptr<part>>& parts_;
  experiment::watchdog& watch_;
};

} // namespace

void run(const run_options& o) {
  const auto sum = std::accumulate(o.shares.begin(), o.shares.end(), 0u);
  if (sum > 100) throw bad_input(fmt::format("--shares: {}% in all, expected 100 at most", sum));
  if (!o.shares.empty() && o.parts != 1)
    throw bad_input("--parts: there are --shares, expected one of both");
  if (o.commands && !o.json.empty())
    throw bad_input("--json: the answers to --commands go to standard output, expected neither");
  experiment::watchdog watch("gsched.gpu.mps_sms");
  watch.step("the set-up", 120);
  const cuda::gpu on = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(o.gpu), "GPU");
  std::vector<std::unique_ptr<part>> parts;
  const auto add = [&](std::shared_ptr<const cuda::partition> where) {
    parts.push_back(std::make_unique<part>(on, std::move(where), o.blocks, o.victim_us));
  };
  if (!o.shares.empty())
    for (const auto& groups : groups_of(cuda::group_sizes(o.gpu), o.shares))
      add(std::make_shared<const cuda::partition>(o.gpu, groups));
  else
    for (unsigned i = 0; i < o.parts; ++i) add(nullptr);

  // What the driver says of the process's SMs, beside those that were counted.
  json out{{"gpu", on.name},
           {"driver", on.driver_version},
           {"runtime", on.runtime_version},
           {"sms", on.sms.count()},
           {"parts", json::array()}};
  const auto print = [](const json& line) {
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  };
  if (o.commands) {
    for (const auto& p : parts) out["parts"].push_back({{"sms", p->sms()}});
    print(out);
    watch.rest();
    commands doing(parts, watch);
    for (std::string line; std::getline(std::cin, line);) print(doing.perform(line));
    return;
  }
  watch.step("holding the SMs", o.seconds + 60);
  for (const auto& p : parts) p->hold(o.seconds + 30);
  std::this_thread::sleep_for(std::chrono::duration<double>(o.seconds));
  for (const auto& p : parts) out["parts"].push_back(answer(p->release()));
  print(out);
  if (o.json.empty()) return;
  std::ofstream to(o.json);
  to << out.dump(1) << '\n';
  if (!to.flush()) throw gsched::error(gsched::errc::io, o.json + ": cannot be written");
}

} // namespace mps_sms
