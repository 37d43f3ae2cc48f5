// SPDX-License-Identifier: Apache-2.0
// The parent process: it never uses CUDA, so that a child is alone on the GPU.

#include "cliff/run.hpp"
#include "cliff/experiments.hpp"
#include "process.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

namespace cliff {

using nlohmann::ordered_json;

namespace {

constexpr double crossed_ratio = 1.05; // crossing gives 1.10 and more, noise 1.01
constexpr double child_seconds = 25;   // the child's own watchdog is faster

class runner {
public:
  explicit runner(const run_options& o) : o_(o), start_(experiment::seconds_now()) {
    if (!o.json.empty()) {
      json_.open(o.json, std::ios::app);
      if (!json_)
        throw gsched::error(gsched::errc::io,
                            o.json + ": cannot be written, expected a writable path");
    }
  }

  [[nodiscard]] bool time_left() const { return experiment::seconds_now() - start_ < o_.seconds; }
  void print_head() {
    if (std::exchange(head_, true)) return;
    fmt::print("microseconds of a replay of 700 kernels; ratios of 700 and of 100\n");
    fmt::print("{:<52} {:>8} {:>8} {:>6} {:>6}  {}\n", "experiment", "before", "after", "ratio",
               "of 100", "CROSSED");
  }
  [[nodiscard]] double elapsed() const { return experiment::seconds_now() - start_; }

  /// Whether it crossed; none if it failed.
  std::optional<bool> run(const experiment_case& c) {
    const double started = experiment::seconds_now();
    experiment::process child(
        {this_program().path, "--child", c.name, "--gpu", std::to_string(this_program().gpu)},
        c.environment);
    child.close_input();
    std::string text;
    const bool ended = child.read(text, child_seconds);
    const int status = child.wait(ended ? 2 : 0);
    ordered_json out = ordered_json::parse(text, nullptr, false);
    if (!out.is_object())
      out = {{"experiment", c.name},
             {"error", fmt::format("the process ended with status {} and no figures", status)}};
    if (status == 4) throw gsched::error(gsched::errc::no_device, out["error"].get<std::string>());
    return record(out, experiment::seconds_now() - started);
  }

private:
  std::optional<bool> record(ordered_json& out, double seconds) {
    print_head();
    const std::string name = out["experiment"];
    std::optional<bool> crossed;
    if (out.contains("marks") && !out.contains("error"))
      crossed = figures(out);
    else
      fmt::print("{:<52} error: {}\n", name, out.value("error", "no figures"));
    out["seconds"] = seconds;
    if (json_.is_open()) {
      json_ << out.dump() << '\n';
      json_.flush();
    }
    std::fflush(stdout);
    return crossed;
  }

  bool figures(ordered_json& out) {
    double before = 0;
    double before_small = 0;
    std::size_t next = 0;
    const ordered_json marks = out["marks"]; // a copy: adding to `out` moves its elements
    if (marks[0]["label"] == "before") {
      before = marks[0]["graph700_us"];
      before_small = marks[0]["graph100_us"];
      next = 1;
      if (out["experiment"].get<std::string>().starts_with("control")) {
        fresh_.push_back(before);
        fresh_small_.push_back(before_small);
      }
    } else {
      before = experiment::median(fresh_);
      before_small = experiment::median(fresh_small_);
    }
    if (next >= marks.size()) next = 0;
    const double after = marks[next]["graph700_us"];
    const double ratio = before > 0 ? after / before : 0;
    const double after_small = marks[next]["graph100_us"];
    const double small = before_small > 0 ? after_small / before_small : 0;
    const bool crossed = ratio > crossed_ratio;
    out["before_us"] = before;
    out["after_us"] = after;
    out["ratio"] = ratio;
    out["ratio100"] = small;
    out["crossed"] = crossed;
    fmt::print("{:<52} {:>8.1f} {:>8.1f} {:>6.3f} {:>6.3f}  {}",
               out["experiment"].get<std::string>(), before, after, ratio, small,
               crossed ? "yes" : "no");
    for (std::size_t i = next + 1; i < marks.size(); ++i) {
      const double us = marks[i]["graph700_us"];
      fmt::print("  {}={:.1f} ({:.3f})", marks[i]["label"].get<std::string>(), us,
                 before > 0 ? us / before : 0);
    }
    if (out.contains("extras"))
      for (const auto& [label, value] : out["extras"].items())
        fmt::print("  {}={:.3g}", label, value.get<double>());
    fmt::print("\n");
    return crossed;
  }

  run_options o_;
  double start_;
  bool head_ = false;
  std::ofstream json_;
  std::vector<double> fresh_;
  std::vector<double> fresh_small_;
};

/// The threshold: between the most launches on each of n streams that did not cross and the fewest
/// that did.
class thresholds {
public:
  void note(std::size_t streams, int launches, bool crossed) {
    auto& [most, fewest] = of_[streams];
    if (!crossed)
      most = std::max(most, launches);
    else
      fewest = fewest == 0 ? launches : std::min(fewest, launches);
  }
  void narrow(runner& with) {
    for (auto& [streams, range] : of_) {
      while (with.time_left() && range.second > range.first + 1) {
        const int middle = (range.first + range.second) / 2;
        const std::optional<bool> crossed = with.run(count_case(streams, middle));
        if (!crossed) break;
        (*crossed ? range.second : range.first) = middle;
      }
      if (range.second > 0)
        fmt::print("{} streams: crosses between {} and {} launches on each\n", streams, range.first,
                   range.second);
      else
        fmt::print("{} streams: not crossed by {} launches on each\n", streams, range.first);
    }
  }

private:
  std::map<std::size_t, std::pair<int, int>> of_;
};

bool wanted(const run_options& o, const std::string& name) {
  return o.only.empty() || std::ranges::any_of(o.only, [&](const std::string& part) {
           return name.find(part) != std::string::npos;
         });
}

} // namespace

int run_all(const run_options& o) {
  runner with(o);
  cases all;
  for (const experiment_case& c : all_cases())
    if (wanted(o, c.name)) all.push_back(c);
  for (const std::string& name : o.only) // a count that is not in the list
    if (const auto own = find_case(name);
        own && std::ranges::none_of(all, [&](const auto& c) { return c.name == name; }))
      all.push_back(*own);
  if (all.empty())
    throw gsched::error(gsched::errc::unknown_name,
                        o.only.front() + ": no such experiment, expected one of --list");
  thresholds edges;
  std::size_t failed = 0;
  std::size_t left_out = 0;
  const auto pass = [&](int repeat) {
    for (const experiment_case& c : all) {
      if (repeat >= c.repeats) continue;
      if (!with.time_left()) {
        ++left_out;
        continue;
      }
      const std::optional<bool> crossed = with.run(c);
      failed += crossed ? 0U : 1U;
      unsigned streams = 0;
      int launches = 0;
      if (crossed && std::sscanf(c.name.c_str(), "count.s%u.l%d", &streams, &launches) == 2)
        edges.note(streams, launches, *crossed);
    }
  };
  pass(0);
  edges.narrow(with);
  pass(1);
  fmt::print("{} experiments failed, {} left out for want of time; {:.0f} s\n", failed, left_out,
             with.elapsed());
  return failed == 0 ? 0 : 1;
}

} // namespace cliff
