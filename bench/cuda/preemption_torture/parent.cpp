// SPDX-License-Identifier: Apache-2.0
#include "experiment.hpp"
#include "process.hpp"
#include "run.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

namespace preemption_torture {

using experiment::quantile;
using experiment::seconds_now;
using nlohmann::ordered_json;

namespace {

/// Results for one number of hardware queues.
struct tally {
  unsigned connections = 0;
  std::uint64_t next_seed = 0;
  std::uint64_t cases = 0, rounds = 0, runs = 0, preemptions = 0, stopped = 0;
  std::uint64_t expired_leases = 0, opened = 0, hangs = 0, differences = 0, refused = 0,
                skipped = 0;
  std::map<std::string, std::uint64_t> why_skipped;
  std::vector<double> over_alone; ///< urgent graphs while all lanes were stopped, relative to alone
  std::vector<double> more_us;    ///< the same, additional time
  std::vector<double> beside;     ///< while some were not stopped, relative to alone
  double seconds = 0;
  bool exhausted = false; ///< all cases of --cases or --replay have run

  void add(const ordered_json& line) {
    ++cases;
    rounds += line["rounds"].get<std::uint64_t>();
    runs += line["runs"].get<std::uint64_t>();
    preemptions += line["preemptions"].get<std::uint64_t>();
    stopped += line["stopped"].get<std::uint64_t>();
    expired_leases += line["expired_leases"].get<std::uint64_t>();
    opened += line["opened"].get<std::uint64_t>();
    const double alone = line["alone_us"];
    if (alone <= 0) return;
    for (const auto& tenths : line["standing"]) {
      over_alone.push_back(tenths.get<double>() / 10 / alone);
      more_us.push_back(tenths.get<double>() / 10 - alone);
    }
    for (const auto& tenths : line["beside"]) beside.push_back(tenths.get<double>() / 10 / alone);
  }
  [[nodiscard]] ordered_json json() const {
    const auto of = [](const std::vector<double>& x) {
      return ordered_json{{"n", x.size()},
                          {"p50", quantile(x, 0.5)},
                          {"p99", quantile(x, 0.99)},
                          {"max", quantile(x, 1)}};
    };
    return {{"connections", connections},
            {"cases", cases},
            {"rounds", rounds},
            {"runs", runs},
            {"preemptions", preemptions},
            {"stopped", stopped},
            {"expired_leases", expired_leases},
            {"opened", opened},
            {"hangs", hangs},
            {"differences", differences},
            {"refused", refused},
            {"skipped", skipped},
            {"why_skipped", why_skipped},
            {"urgent_over_alone", of(over_alone)},
            {"urgent_more_us", of(more_us)},
            {"urgent_beside_over_alone", of(beside)},
            {"seconds", seconds}};
  }
};

struct failure {
  std::string kind; ///< hang, difference, refused or crash
  std::string what;
  unsigned connections = 0;
  torture_case original;
  torture_case smallest;
  std::string file;
  std::size_t shrunk = 0; ///< steps
};

std::string shape_arguments(const run_options& o) {
  std::string text =
      fmt::format(" --max-nodes {} --lanes {} --hang-seconds {} --alone-runs {}",
                  o.shape.most_nodes, o.shape.most_lanes, o.hang_seconds, o.alone_runs);
  if (o.shape.features == work_graph::all_features) return text;
  text += " --features ";
  for (std::size_t k = 0; k < work_graph::feature_names.size(); ++k)
    if ((o.shape.features >> k & 1) != 0) text += std::string(work_graph::feature_names[k]) + ",";
  if (text.back() == ',') text.pop_back();
  return text;
}

/// A process that runs cases.
class child {
public:
  child(const run_options& o, unsigned connections, std::vector<std::string> more)
      : patience_(300 + 8 * o.hang_seconds),
        process_(
            [&] {
              std::vector<std::string> command{"/proc/self/exe", "--child", "--gpu",
                                               std::to_string(o.gpu)};
              std::string shape = shape_arguments(o);
              while (!shape.empty()) {
                shape.erase(0, 1);
                const std::size_t to = std::min(shape.find(' '), shape.size());
                command.push_back(shape.substr(0, to));
                shape.erase(0, to);
              }
              command.insert(command.end(), more.begin(), more.end());
              return command;
            }(),
            {{"CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(connections)}}) {
    process_.close_input();
  }

  /// Its next line; none at its end, or if no line arrives for long.
  [[nodiscard]] std::optional<ordered_json> next() {
    std::string line;
    if (!process_.read(line, patience_, true)) return std::nullopt;
    ordered_json j = ordered_json::parse(line, nullptr, false);
    if (!j.is_object())
      throw gsched::error(gsched::errc::io,
                          "a child process wrote \"" + line + "\", expected a line of JSON");
    if (j.contains("error"))
      throw gsched::error(gsched::errc::device_failed, j["error"].get<std::string>());
    return j;
  }
  /// Its status; killed if it does not end soon.
  [[nodiscard]] int status() { return process_.wait(5); }

private:
  double patience_; ///< the child's own watchdog is earlier
  experiment::process process_;
};

class parent {
public:
  explicit parent(const run_options& o) : o_(o), began_(seconds_now()) {
    for (const unsigned c : o.connections) {
      tally t;
      t.connections = c;
      t.next_seed = o.seed;
      tallies_.push_back(std::move(t));
    }
  }

  bool run() {
    constexpr double slice_s = 25; // so that all settings receive a share of a short time
    while (failures_.size() < o_.failures && left_s() > 0) {
      bool any = false;
      for (tally& t : tallies_) {
        if (t.exhausted || wanted(t) == 0 || left_s() <= 0 || failures_.size() >= o_.failures)
          continue;
        any = true;
        run_slice(t, std::min(slice_s, left_s()));
        print_progress(t);
        save();
      }
      if (!any) break;
    }
    return report();
  }

private:
  [[nodiscard]] double left_s() const {
    return o_.seconds - (seconds_now() - began_ - shrinking_s_);
  }
  /// The preemptions that a setting still needs.
  [[nodiscard]] std::uint64_t wanted(const tally& t) const {
    const std::uint64_t each = (o_.preemptions + tallies_.size() - 1) / tallies_.size();
    return t.preemptions < each ? each - t.preemptions : 0;
  }

  /// The failure that a child has reported.
  struct finding {
    std::string kind;
    std::string what;
    std::uint64_t number = 0; ///< of the case
  };

  /// Runs one child until its time is over or something fails; then smaller cases, after it has
  /// ended.
  void run_slice(tally& t, double seconds) {
    const double from = seconds_now();
    const std::optional<finding> found = run_cases(t, seconds);
    t.seconds += seconds_now() - from;
    if (!o_.replay.empty()) t.exhausted = true;
    if (o_.cases > 0 && t.next_seed >= o_.seed + o_.cases) t.exhausted = true;
    if (found) fail(t, *found);
  }

  [[nodiscard]] std::optional<finding> run_cases(tally& t, double seconds) {
    std::vector<std::string> more{"--preemptions", std::to_string(wanted(t)),
                                  "--seconds",     fmt::format("{}", seconds),
                                  "--seed",        std::to_string(t.next_seed)};
    if (!o_.replay.empty()) {
      more.insert(more.end(), {"--replay", o_.replay, "--repeat", std::to_string(o_.repeat)});
    } else if (o_.cases > 0) {
      const std::uint64_t rest = o_.seed + o_.cases - t.next_seed;
      more.insert(more.end(), {"--cases", std::to_string(rest)});
    }
    child c(o_, t.connections, more);
    std::uint64_t under_way = t.next_seed;
    while (const auto line = c.next()) {
      if (line->contains("gpu")) gpu_ = (*line)["gpu"];
      if (line->contains("begin")) {
        under_way = (*line)["begin"].get<std::uint64_t>();
        if (o_.replay.empty()) t.next_seed = under_way + 1;
      }
      if (!line->contains("case")) continue;
      if (const auto found = take_result(t, *line)) return found;
      if (line->contains("hang")) return std::nullopt; // CUDA alone
    }
    const int status = c.status();
    if (status == 0) return std::nullopt;
    return ended_with(status, under_way);
  }

  /// For a child that ended without a reason: by its own watchdog or by a signal.
  [[nodiscard]] static finding ended_with(int status, std::uint64_t number) {
    return {status == 3 || status == 128 + 9 ? "hang" : "crash",
            fmt::format("the process ended with status {}", status), number};
  }

  /// The end of a case.
  [[nodiscard]] std::optional<finding> take_result(tally& t, const ordered_json& line) {
    const std::uint64_t number = line["case"];
    if (line.contains("hang")) {
      const std::string what = line["hang"];
      if (!line["alone"].get<bool>()) return finding{"hang", what, number};
      ++t.skipped;
      ++t.why_skipped[what];
      return std::nullopt;
    }
    t.add(line);
    const std::string skipped = line["skipped"];
    if (!skipped.empty()) {
      ++t.skipped;
      ++t.why_skipped[skipped];
    }
    for (const char* const kind : {"refused", "difference"})
      if (const std::string what = line[kind]; !what.empty()) return finding{kind, what, number};
    return std::nullopt;
  }

  void fail(tally& t, const finding& found) {
    const auto& [kind, what, number] = found;
    ++(kind == "hang" || kind == "crash" ? t.hangs : kind == "refused" ? t.refused : t.differences);
    failure f;
    f.kind = kind;
    f.what = what;
    f.connections = t.connections;
    f.original = o_.replay.empty() ? random_case(number, o_.shape) : listed(number);
    f.smallest = f.original;
    f.file = (std::filesystem::path(o_.keep) /
              fmt::format("torture-{}-{}.case", f.original.seed, t.connections))
                 .string();
    fmt::print("\n{} in case {} with {} connections: {}\n", kind, number, t.connections, what);
    keep(f);
    fmt::print("its graphs are in {}: {} nodes on {} lanes, urgent {} nodes on {}\n", f.file,
               f.original.best_effort.nodes.size(), f.original.lanes,
               f.original.urgent.nodes.size(), f.original.urgent_lanes);
    if (f.original.nodes() <= 60) fmt::print("{}", to_text(f.original));
    std::fflush(stdout);
    const double shrinking = seconds_now();
    shrink(f);
    shrinking_s_ += seconds_now() - shrinking;
    keep(f);
    failures_.push_back(std::move(f));
    save();
  }

  [[nodiscard]] torture_case listed(std::uint64_t number) const {
    std::ifstream in(o_.replay);
    work_graph::line_reader lines(in, o_.replay);
    for (std::uint64_t k = 0;; ++k) {
      auto c = read_case(lines);
      if (!c || k == number) return c.value_or(torture_case{});
    }
  }

  void keep(const failure& f) const {
    std::ofstream out(f.file);
    out << "# " << f.kind << " with " << f.connections << " connections: " << f.what << '\n'
        << to_text(f.smallest);
    if (f.shrunk > 0) { // the original case, which is not run again
      std::istringstream original(to_text(f.original));
      out << "# smaller than:\n";
      for (std::string line; std::getline(original, line);) out << "# " << line << '\n';
    }
    if (!out.flush())
      fmt::print(stderr,
                 "gsched.gpu.preemption_torture: {}: not written, expected a folder that "
                 "can be written to\n",
                 f.file);
  }

  /// Tries simpler cases in new processes, and continues with the first that fails.
  void shrink(failure& f) {
    const double until = seconds_now() + o_.shrink_seconds;
    const std::string file = f.file + ".candidates";
    while (seconds_now() < until) {
      std::vector<torture_case> candidates = smaller(f.smallest);
      if (candidates.empty()) break;
      {
        std::ofstream out(file);
        for (const torture_case& c : candidates) out << to_text(c);
      }
      const auto failed = first_failing(file, f, until - seconds_now());
      if (!failed || failed->number >= candidates.size()) break;
      f.smallest = std::move(candidates[failed->number]);
      f.kind = failed->kind;
      f.what = failed->what;
      ++f.shrunk;
      keep(f);
    }
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }

  /// The first case of a file that fails. A refusal counts only if the original failure is a
  /// refusal: a smaller graph may be refused for another reason.
  [[nodiscard]] std::optional<finding> first_failing(const std::string& file, const failure& f,
                                                     double seconds) {
    child c(
        o_, f.connections,
        {"--replay", file, "--repeat", "2", "--seconds", fmt::format("{}", std::max(seconds, 1.))});
    std::optional<std::uint64_t> under_way;
    while (const auto line = c.next()) {
      if (line->contains("begin")) under_way = (*line)["begin"].get<std::uint64_t>();
      if (!line->contains("case")) continue;
      const std::uint64_t number = (*line)["case"];
      if (line->contains("hang")) {
        if ((*line)["alone"].get<bool>()) return std::nullopt;
        return finding{"hang", (*line)["hang"].get<std::string>(), number};
      }
      const char* const kind = f.kind == "refused" ? "refused" : "difference";
      if (const std::string what = (*line)[kind]; !what.empty()) return finding{kind, what, number};
    }
    const int status = c.status();
    if (status == 0 || !under_way) return std::nullopt;
    return ended_with(status, *under_way);
  }

  void print_progress(const tally& t) const {
    fmt::print("{:>4} connections: {} cases, {} preemptions, {} stopped, {} hangs, {} differences, "
               "{} refused, {} skipped\n",
               t.connections, t.cases, t.preemptions, t.stopped, t.hangs, t.differences, t.refused,
               t.skipped);
    std::fflush(stdout);
  }

  [[nodiscard]] std::string command(const failure& f, bool smallest) const {
    const std::string program = "gsched.gpu.preemption_torture";
    if (smallest || !o_.replay.empty())
      return fmt::format("{} --replay {} --repeat 20 --connections {} --hang-seconds {}", program,
                         f.file, f.connections, o_.hang_seconds);
    return fmt::format("{} --seed {} --cases 1 --connections {}{}", program, f.original.seed,
                       f.connections, shape_arguments(o_));
  }

  [[nodiscard]] bool complete() const {
    return std::all_of(tallies_.begin(), tallies_.end(),
                       [&](const tally& t) { return t.exhausted || wanted(t) == 0; });
  }

  bool report() {
    save();
    std::stable_sort(failures_.begin(), failures_.end(), [](const failure& a, const failure& b) {
      return a.smallest.nodes() < b.smallest.nodes();
    });
    for (const failure& f : failures_) {
      fmt::print("\n{} with {} connections: {}\n", f.kind, f.connections, f.what);
      const std::string text = to_text(f.smallest);
      constexpr std::size_t most_nodes = 300;
      if (f.smallest.best_effort.nodes.size() + f.smallest.urgent.nodes.size() <= most_nodes)
        fmt::print("{}", text);
      else
        fmt::print("{}... in {}\n", text.substr(0, text.find('\n') + 1), f.file);
      fmt::print("again: {}\nas it was: {}\n", command(f, true), command(f, false));
    }
    fmt::print("\nurgent / alone: urgent graphs submitted while all best-effort lanes stood, from "
               "submission to end, over alone\n{:>11} {:>7} {:>11} {:>9}  {:>14} {:>6} {:>7}  "
               "{:>7} {:>7} {:>6} {:>11} {:>8} {:>8} {:>8}\n",
               "connections", "cases", "preemptions", "stopped", "urgent/alone 50", "99", "max",
               "leases", "let go", "hangs", "differences", "refused", "skipped", "seconds");
    for (const tally& t : tallies_) {
      fmt::print(
          "{:>11} {:>7} {:>11} {:>9}  {:>15.3f} {:>6.2f} {:>7.2f}  {:>7} {:>7} {:>6} {:>11} {:>8} "
          "{:>8} {:>8.0f}\n",
          t.connections, t.cases, t.preemptions, t.stopped, quantile(t.over_alone, 0.5),
          quantile(t.over_alone, 0.99), quantile(t.over_alone, 1), t.expired_leases, t.opened,
          t.hangs, t.differences, t.refused, t.skipped, t.seconds);
      for (const auto& [why, times] : t.why_skipped)
        fmt::print("{:>11} skipped {} times: {}\n", "", times, why);
    }
    if (!complete()) fmt::print("incomplete: the time is over, or too many cases failed\n");
    std::fflush(stdout);
    const bool sound = std::all_of(tallies_.begin(), tallies_.end(), [](const tally& t) {
      return t.hangs + t.differences + t.refused == 0;
    });
    return sound && complete();
  }

  void save() const {
    if (o_.json.empty()) return;
    ordered_json all{{"experiment", "preemption_torture"},
                     {"gpu", gpu_},
                     {"seed", o_.seed},
                     {"preemptions_wanted", o_.preemptions},
                     {"max_nodes", o_.shape.most_nodes},
                     {"lanes", o_.shape.most_lanes},
                     {"hang_seconds", o_.hang_seconds},
                     {"complete", complete()}};
    all["settings"] = ordered_json::array();
    for (const tally& t : tallies_) all["settings"].push_back(t.json());
    all["failures"] = ordered_json::array();
    for (const failure& f : failures_)
      all["failures"].push_back({{"kind", f.kind},
                                 {"what", f.what},
                                 {"connections", f.connections},
                                 {"seed", f.original.seed},
                                 {"nodes", f.smallest.nodes()},
                                 {"shrunk", f.shrunk},
                                 {"command", command(f, true)},
                                 {"case", to_text(f.smallest)}});
    std::ofstream out(o_.json);
    out << all.dump(1) << '\n';
    if (!out.flush())
      throw gsched::error(gsched::errc::io,
                          o_.json + ": cannot be written, expected a writable path");
  }

  const run_options& o_;
  double began_;
  double shrinking_s_ = 0;
  std::string gpu_;
  std::vector<tally> tallies_;
  std::vector<failure> failures_;
};

} // namespace

bool run_all(const run_options& o) { return parent(o).run(); }

} // namespace preemption_torture
