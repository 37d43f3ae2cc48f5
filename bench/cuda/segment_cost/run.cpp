// SPDX-License-Identifier: Apache-2.0
#include "segment_cost/run.hpp"
#include "segment_cost/subject.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

namespace segment_cost {

using experiment::median;
using nlohmann::ordered_json;

namespace {

/// One way to run a model; all ways are interleaved, so that they see the same state of the GPU.
struct variant {
  double target_us = 0;   ///< 0: whole
  unsigned in_flight = 0; ///< 0: by the dispatcher
  std::function<double()> run;
  std::vector<double> us = {};
};

class one_model {
public:
  one_model(const gsched::profile& p, const run_options& o) : name_(p.full_name()) {
    for (std::size_t i = 0; i < o.targets_us.size(); ++i)
      subjects_.push_back(
          std::make_unique<subject>(p, subject_options{o.gpu, o.targets_us[i], i == 0}));
    variants_.push_back({0, 1, [s = subjects_.front().get()] { return s->replay_whole(); }});
    for (const auto& each : subjects_) {
      subject* const s = each.get();
      for (unsigned n = 1; n <= o.most_in_flight; ++n)
        variants_.push_back({s->target_us(), n, [s, n] { return s->replay(n); }});
      variants_.push_back({s->target_us(), 0, [s] { return s->dispatch(); }});
    }
  }

  void measure(unsigned runs) {
    constexpr unsigned warm = 5;
    for (unsigned i = 0; i < runs + warm; ++i)
      for (variant& v : variants_) {
        const double us = v.run();
        if (i >= warm) v.us.push_back(us);
      }
  }

  /// Additional time in percent of the whole graph's, by target and segments in flight.
  [[nodiscard]] std::map<std::pair<double, unsigned>, double> print() const {
    std::map<std::pair<double, unsigned>, double> over;
    const double whole = median(variants_.front().us);
    const auto third = static_cast<std::ptrdiff_t>(variants_.front().us.size() / 3);
    const auto& us = variants_.front().us;
    fmt::print("{}: {} operations, whole graph {:.1f} us (first third {:.1f}, last {:.1f})\n",
               name_, subjects_.front()->operations(), whole,
               median({us.begin(), us.begin() + third}), median({us.end() - third, us.end()}));
    for (const auto& s : subjects_) {
      fmt::print("  {:>4.0f} us, {:>4} segments:", s->target_us(), s->segments());
      for (const variant& v : variants_)
        if (v.target_us == s->target_us()) {
          const double percent = 100 * (median(v.us) / whole - 1);
          over[{v.target_us, v.in_flight}] = percent;
          if (v.in_flight > 0)
            fmt::print("  {} in flight {:+6.2f}%", v.in_flight, percent);
          else
            fmt::print("  dispatcher {:+6.2f}%", percent);
        }
      fmt::print("  host us a segment: driver {:.2f}, dispatcher {:.2f}\n", s->driver_us(),
                 s->dispatcher_us());
    }
    std::fflush(stdout);
    return over;
  }

  [[nodiscard]] ordered_json json() const {
    ordered_json out{{"model", name_},
                     {"operations", subjects_.front()->operations()},
                     {"whole_us", median(variants_.front().us)}};
    for (const auto& s : subjects_) {
      const gsched::cuda::program_memory m = s->memory();
      out["segmented"].push_back({{"target_us", s->target_us()},
                                  {"segments", s->segments()},
                                  {"driver_us_per_segment", s->driver_us()},
                                  {"dispatcher_us_per_segment", s->dispatcher_us()},
                                  {"device_bytes", m.device_bytes},
                                  {"graphs", m.graphs}});
    }
    for (const variant& v : variants_)
      out["variants"].push_back({{"target_us", v.target_us},
                                 {"in_flight", v.in_flight},
                                 {"median_us", median(v.us)},
                                 {"p10_us", experiment::quantile(v.us, 0.1)},
                                 {"p90_us", experiment::quantile(v.us, 0.9)},
                                 {"us", v.us}});
    return out;
  }

private:
  std::string name_;
  std::vector<std::unique_ptr<subject>> subjects_;
  std::vector<variant> variants_;
};

using overheads = std::map<std::pair<double, unsigned>, std::vector<double>>;

void print_summary(const overheads& all) {
  fmt::print("\nover one whole-graph replay with a final notification\n");
  fmt::print("{:>10} {:>12} {:>8} {:>8} {:>7}\n", "segment us", "in flight", "median", "worst",
             "models");
  for (const auto& [key, percents] : all)
    fmt::print("{:>10.0f} {:>12} {:>+7.2f}% {:>+7.2f}% {:>7}\n", key.first,
               key.second == 0 ? "dispatcher" : std::to_string(key.second), median(percents),
               *std::ranges::max_element(percents), percents.size());
}

void save(const std::string& path, const ordered_json& all) {
  std::ofstream out(path);
  out << all.dump() << '\n';
  out.close();
  if (!out)
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

} // namespace

void run(const run_options& o) {
  experiment::watchdog dog("gsched.gpu.segment_cost");
  const double start = experiment::seconds_now();
  dog.step("start of CUDA", 30);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  const gsched::cuda::current_gpu here(o.gpu);
  ordered_json all{{"experiment", "segment_cost"}, {"gpu", gpu.name}, {"runs", o.runs}};
  overheads over;
  std::size_t left_out = 0;
  for (const std::string& model : o.models) {
    if (experiment::seconds_now() - start > o.seconds) {
      ++left_out;
      continue;
    }
    const gsched::profile p = gsched::load_profile(o.profiles / (model + ".json"));
    dog.step(model + ": set-up", 120);
    one_model m(p, o);
    dog.step(model + ": replays", 60);
    m.measure(o.runs);
    for (const auto& [key, percent] : m.print()) over[key].push_back(percent);
    all["models"].push_back(m.json());
    if (!o.json.empty()) save(o.json, all); // also if a later model fails
    dog.step(model + ": end", 30);
  }
  dog.rest();
  print_summary(over);
  if (left_out > 0) fmt::print("{} models left out for want of time\n", left_out);
}

} // namespace segment_cost
