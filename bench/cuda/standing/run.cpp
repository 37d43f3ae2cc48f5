// SPDX-License-Identifier: Apache-2.0
// The parent process: it never uses CUDA, so that a child is alone on the GPU.

#include "standing/run.hpp"
#include "process.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>

namespace standing {

namespace {

constexpr double start_seconds = 60; ///< of CUDA in a child
constexpr double case_seconds = 60;  ///< the child's watchdog is earlier
constexpr double exit_seconds = 10;

class runner {
public:
  explicit runner(const run_options& o) : o_(o), began_(experiment::seconds_now()) {
    all_ = {{"experiment", "standing"}, {"quick", o.quick}};
    save();
  }

  void run(const part& p) {
    std::vector<std::string> names = p.cases(o_);
    std::erase_if(names, [&](const std::string& name) { return !is_wanted(name); });
    if (names.empty()) return;
    seen_ += names.size();
    p.print_head(o_);
    const auto keep = [&](const ordered_json& figures) {
      p.print(figures, o_);
      std::fflush(stdout);
      for (const ordered_json& f : figures) {
        all_[std::string(p.name)].push_back(f);
        note(p, f);
      }
      save();
    };
    if (!p.alone) {
      if (is_late())
        left_out_ += names.size();
      else
        run_cases(p, names, 0, [&](ordered_json f) { keep(ordered_json::array({std::move(f)})); });
    } else {
      for (const std::string& name : names) {
        if (is_late()) {
          ++left_out_;
          continue;
        }
        ordered_json figures = ordered_json::array();
        for (const unsigned c : o_.connections)
          run_cases(p, {name}, c, [&](ordered_json f) {
            f["connections"] = c;
            figures.push_back(std::move(f));
          });
        keep(figures);
      }
    }
    fmt::print("\n");
  }

  int end() {
    if (seen_ == 0)
      throw gsched::error(gsched::errc::unknown_name,
                          o_.only.front() + ": in no case's name, expected one of --list");
    for (const std::string& n : notes_) fmt::print("{}\n", n);
    fmt::print("{:.0f} s; {} failed", experiment::seconds_now() - began_, failed_);
    if (left_out_ > 0) fmt::print(", {} left out for want of time (--seconds)", left_out_);
    fmt::print("\n");
    return failed_ == 0 ? 0 : 1;
  }

private:
  [[nodiscard]] bool is_wanted(const std::string& name) const {
    return o_.only.empty() || std::ranges::any_of(o_.only, [&](const std::string& part) {
             return name.find(part) != std::string::npos;
           });
  }
  [[nodiscard]] bool is_late() const { return experiment::seconds_now() - began_ > o_.seconds; }

  /// In one process, and in further ones for the remaining cases if one ends early.
  void run_cases(const part& p, std::vector<std::string> names, unsigned connections,
                 const std::function<void(ordered_json)>& take) {
    while (!names.empty()) {
      std::vector<std::string> command{"/proc/self/exe", "--child", std::string(p.name), "--gpu",
                                       std::to_string(o_.gpu)};
      if (o_.quick) command.emplace_back("--quick");
      for (const std::string& name : names) command.insert(command.end(), {"--case", name});
      experiment::process child(command, {{"CUDA_DEVICE_MAX_CONNECTIONS",
                                           connections == 0 ? "" : std::to_string(connections)}});
      child.close_input();
      const std::size_t before = names.size();
      if (ordered_json facts; read(child, start_seconds, facts)) {
        if (facts.contains("no_gpu"))
          throw gsched::error(gsched::errc::no_device, facts["no_gpu"].get<std::string>());
        all_.update(facts);
        for (ordered_json line; !names.empty() && read(child, case_seconds, line);) {
          names.erase(names.begin());
          take(std::move(line));
        }
      }
      const int status = child.wait(exit_seconds);
      if (names.size() < before) continue;
      take({{"case", names.front()},
            {"error", fmt::format("the process ended with status {} and no figures", status)}});
      names.erase(names.begin());
    }
  }

  [[nodiscard]] static bool read(experiment::process& child, double seconds, ordered_json& into) {
    std::string text;
    if (!child.read(text, seconds, true)) return false;
    into = ordered_json::parse(text, nullptr, false);
    return into.is_object();
  }

  /// The text below the tables.
  void note(const part& p, const ordered_json& f) {
    std::string where = fmt::format("{}, {}", p.name, f["case"].get<std::string>());
    if (f.contains("connections"))
      where += fmt::format(", {} connections", f["connections"].get<unsigned>());
    for (const auto& [key, text] : {std::pair{"error", "error"}, std::pair{"left_out", "left out"},
                                    std::pair{"hangs", "hangs for good in"},
                                    std::pair{"released_in", "released by the watchdog in"}})
      if (f.contains(key))
        notes_.push_back(fmt::format("{}: {}: {}", where, text, f[key].get<std::string>()));
    failed_ += f.contains("error") ? 1U : 0U;
  }

  void save() const {
    if (o_.json.empty()) return;
    std::ofstream out(o_.json);
    out << all_.dump() << '\n';
    out.close();
    if (!out)
      throw gsched::error(gsched::errc::io,
                          o_.json + ": cannot be written, expected a writable path");
  }

  run_options o_;
  double began_;
  ordered_json all_;
  std::vector<std::string> notes_;
  std::size_t seen_ = 0;
  std::size_t failed_ = 0;
  std::size_t left_out_ = 0;
};

} // namespace

std::vector<part> all_parts() {
  return {queues_part(), slots_part(), calls_part(), growth_part(), cost_part(), building_part()};
}

int run_all(const run_options& o) {
  runner r(o);
  for (const part& p : all_parts())
    if (std::ranges::find(o.parts, p.name) != o.parts.end()) r.run(p);
  return r.end();
}

} // namespace standing
