// SPDX-License-Identifier: Apache-2.0
#include "plan_switch/run.hpp"

#include "experiment.hpp"
#include "plan_switch/seat.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace plan_switch {

namespace {

namespace cuda = gsched::cuda;
using experiment::seconds_now;
using json = nlohmann::ordered_json;
using plan = std::vector<std::unique_ptr<seat>>;

double us_since(double then) { return 1e6 * (seconds_now() - then); }

struct samples {
  std::vector<double> first, last, old_late, new_late, made;
};

class switches {
public:
  explicit switches(const run_options& o)
      : o_(o), dog_("gsched.gpu.plan_switch"), model_(make_model(o)), first_(make_first()) {}

  /// The partitions of a plan: that many SMs first, and the rest.
  [[nodiscard]] plan make(std::uint32_t sms) const {
    const std::vector<std::uint32_t> sizes = cuda::group_sizes(o_.gpu);
    std::vector<std::uint32_t> few, rest;
    for (std::uint32_t g = 0, sum = 0; g < sizes.size(); sum += sizes[g++])
      (sum < sms ? few : rest).push_back(g);
    plan p;
    p.push_back(std::make_unique<seat>(o_.gpu, few, first_, model_));
    p.push_back(std::make_unique<seat>(o_.gpu, rest, first_, model_));
    return p;
  }
  /// Time of a request alone on each partition: medians, in microseconds.
  [[nodiscard]] static std::vector<double> alone(plan& p) {
    std::vector<double> us;
    for (auto& s : p) {
      std::vector<double> all;
      for (int i = 0; i < 60; ++i) {
        const double begin = seconds_now();
        s->submit();
        while (!s->ended()) {
        }
        if (i >= 10) all.push_back(us_since(begin));
      }
      us.push_back(experiment::median(all));
    }
    return us;
  }

  /// One switch, while each partition of the old plan runs a request.
  template <class Next>
  void once(plan& old, const std::vector<double>& old_us, Next next,
            const std::vector<double>& new_us, samples& out) {
    dog_.step("a switch", 20);
    const double submitted = seconds_now();
    for (auto& s : old) s->submit();
    const double wait = 1e-6 * old_us.front() * std::uniform_real_distribution(0.1, 0.9)(random_);
    while (seconds_now() - submitted < wait) {
    }
    std::vector<double> old_end(old.size()), begun(new_us.size()), ended(new_us.size());
    const auto watch_old = [&] {
      for (std::size_t i = 0; i < old.size(); ++i)
        if (old_end[i] == 0 && old[i]->ended()) old_end[i] = us_since(submitted);
    };
    const double decided = seconds_now();
    plan& to = next();
    out.made.push_back(us_since(decided));
    for (auto& s : to) s->submit();
    for (std::size_t left = to.size(); left > 0;) {
      watch_old();
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (begun[i] == 0 && to[i]->started()) begun[i] = us_since(decided);
        if (ended[i] == 0 && to[i]->ended()) {
          ended[i] = us_since(decided);
          --left;
        }
      }
    }
    while (std::count(old_end.begin(), old_end.end(), 0.0) > 0) watch_old();
    out.first.push_back(*std::min_element(begun.begin(), begun.end()));
    out.last.push_back(*std::max_element(begun.begin(), begun.end()));
    for (std::size_t i = 0; i < old.size(); ++i) out.old_late.push_back(old_end[i] - old_us[i]);
    for (std::size_t i = 0; i < to.size(); ++i)
      out.new_late.push_back(ended[i] - out.made.back() - new_us[i]);
    dog_.rest();
  }

private:
  [[nodiscard]] static cuda::program make_model(const run_options& o) {
    cuda::check(cudaSetDevice(o.gpu), "GPU");
    return cuda::make_stand_in(gsched::load_profile(o.profiles / (o.model + ".json")));
  }
  [[nodiscard]] static cuda::program make_first() {
    gsched::operation block;
    block.launch.block = {32, 1, 1};
    block.launch.registers_per_thread = 32;
    block.expected = gsched::from_us(1);
    return cuda::make_stand_in(gsched::program("first", {block}));
  }

  run_options o_;
  experiment::watchdog dog_;
  cuda::program model_, first_;
  std::mt19937_64 random_{1};
};

json told(const char* name, const std::vector<double>& us) {
  const auto q = [&](double at) { return experiment::quantile(us, at); };
  fmt::print("  {:<62}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n", name, q(0.1), q(0.5), q(0.9), q(0.99));
  return {{"name", name},     {"n", us.size()},   {"p10_us", q(0.1)},
          {"p50_us", q(0.5)}, {"p90_us", q(0.9)}, {"p99_us", q(0.99)}};
}

/// While contexts are created, the ends of old requests are not polled.
json told(const char* what, const samples& s, bool made) {
  fmt::print("{}, us{:>{}}p10      p50      p90      p99\n", what, "",
             static_cast<int>(64 - std::string(what).size()));
  json rows = json::array();
  if (made) rows.push_back(told("contexts, streams and graphs made", s.made));
  rows.push_back(told("decision -> first block on a new partition", s.first));
  rows.push_back(told("decision -> first block on each new partition", s.last));
  if (!made) rows.push_back(told("requests of the old plan, longer than alone by", s.old_late));
  rows.push_back(told("first requests of the new plan, longer than alone by", s.new_late));
  return {{"what", what}, {"rows", std::move(rows)}};
}

} // namespace

void run(const run_options& o) {
  switches s(o);
  plan halves = s.make(64), quarters = s.make(32);
  const std::vector<double> on_halves = switches::alone(halves),
                            on_quarters = switches::alone(quarters);
  fmt::print("{}: alone {:.0f} and {:.0f} us on {} and {} SMs, {:.0f} and {:.0f} on {} and {}\n\n",
             o.model, on_halves[0], on_halves[1], halves[0]->sms().count(),
             halves[1]->sms().count(), on_quarters[0], on_quarters[1], quarters[0]->sms().count(),
             quarters[1]->sms().count());
  samples ready, created;
  for (unsigned i = 0; i < o.switches; ++i) {
    const bool back = i % 2 == 1;
    s.once(
        back ? quarters : halves, back ? on_quarters : on_halves,
        [&]() -> plan& { return back ? halves : quarters; }, back ? on_halves : on_quarters, ready);
  }
  for (unsigned i = 0; i < o.created; ++i) {
    plan fresh;
    s.once(
        halves, on_halves, [&]() -> plan& { return fresh = s.make(32); }, on_quarters, created);
  }
  json out{{"model", o.model}, {"gpu", cuda::find_gpu(o.gpu).name}};
  out["ready"] = told("contexts ready", ready, false);
  out["created"] = told("contexts made then", created, true);
  if (o.json.empty()) return;
  std::ofstream file(o.json);
  file << out.dump(1) << '\n';
  if (!file.flush()) throw gsched::error(gsched::errc::io, o.json.string() + ": cannot write");
}

} // namespace plan_switch
