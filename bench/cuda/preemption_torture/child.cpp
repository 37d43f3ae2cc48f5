// SPDX-License-Identifier: Apache-2.0
#include "case_run.hpp"
#include "experiment.hpp"
#include "run.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <future>
#include <optional>
#include <utility>

namespace preemption_torture {

using experiment::seconds_now;
using nlohmann::ordered_json;

namespace {

constexpr int hung = 5; ///< status of a process that saw a hang

void write_line(const ordered_json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  std::_Exit(status); // the driver frees everything
}

/// Cases one after another: random ones, or those of a file.
class supply {
public:
  explicit supply(const run_options& o) : options_(o), next_(o.seed) {
    if (o.replay.empty()) return;
    std::ifstream in(o.replay);
    if (!in)
      throw gsched::error(gsched::errc::io,
                          o.replay + ": cannot be read, expected a file of cases");
    work_graph::line_reader lines(in, o.replay);
    while (auto c = read_case(lines))
      for (unsigned k = 0; k < o.repeat; ++k) listed_.push_back(*c);
  }
  /// The number of the next case, and the case; none after the last one.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, torture_case>> next() {
    const std::uint64_t number = next_++;
    if (options_.replay.empty()) {
      if (options_.cases > 0 && number >= options_.seed + options_.cases) return std::nullopt;
      return std::pair(number, random_case(number, options_.shape));
    }
    const std::uint64_t index = number - options_.seed;
    if (index >= listed_.size()) return std::nullopt;
    torture_case c = std::move(listed_[index]);
    return std::pair(index / options_.repeat, std::move(c));
  }

private:
  const run_options& options_;
  std::uint64_t next_;
  std::vector<torture_case> listed_;
};

/// Cases whose memory other threads compare while the GPU runs the next ones.
class verdicts {
public:
  verdicts(std::size_t most, bool stops) : most_(most), stops_(stops) {}

  void add(ordered_json line, evidence left) {
    waiting_.emplace_back(std::move(line), std::async(std::launch::async, verify, std::move(left)));
    while (waiting_.size() > most_) take();
  }
  void take_ready() {
    while (!waiting_.empty() &&
           waiting_.front().second.wait_for(std::chrono::seconds{0}) == std::future_status::ready)
      take();
  }
  void take_all() {
    while (!waiting_.empty()) take();
  }

private:
  void take() {
    auto [line, verdict] = std::move(waiting_.front());
    waiting_.pop_front();
    line["difference"] = verdict.get();
    write_line(line);
    if (stops_ && !line["difference"].get<std::string>().empty()) leave(0);
  }

  std::size_t most_;
  bool stops_; ///< at the first difference
  std::deque<std::pair<ordered_json, std::future<std::string>>> waiting_;
};

std::vector<int> rounded(const std::vector<double>& us) {
  std::vector<int> all;
  for (const double x : us) all.push_back(static_cast<int>(x * 10)); // tenths
  return all;
}

void run_cases(const run_options& o) {
  experiment::watchdog dog("gsched.gpu.preemption_torture --child");
  dog.step("start of CUDA", 60);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  gsched::cuda::check(cudaSetDevice(o.gpu), "GPU");
  static_cast<void>(gsched::cuda::driver());
  const work_graph::gpu_facts facts = work_graph::prepare_gpu();
  work_graph::memory_pool memory(256u << 20, 96u << 20);
  write_line({{"gpu", gpu.name}});
  supply cases(o);
  verdicts found(o.replay.empty() ? 6 : 0, !o.replay.empty());
  const double until = seconds_now() + o.seconds;
  std::uint64_t preemptions = 0;
  while (preemptions < o.preemptions && seconds_now() < until) {
    const auto next = cases.next();
    if (!next) break;
    const torture_case& c = next->second;
    write_line({{"begin", next->first}, {"nodes", c.nodes()}});
    outcome r;
    try {
      r = run_case(c, facts, memory, dog, o.hang_seconds, o.alone_runs);
    } catch (const hang& h) {
      dog.rest();
      write_line({{"case", next->first}, {"hang", h.what()}, {"alone", h.by_cuda_alone()}});
      leave(hung);
    }
    preemptions += r.seen.preemptions;
    ordered_json line{{"case", next->first},
                      {"rounds", r.seen.rounds},
                      {"preemptions", r.seen.preemptions},
                      {"stopped", r.seen.stopped},
                      {"runs", r.seen.runs},
                      {"expired_leases", r.seen.expired_leases},
                      {"opened", r.seen.opened},
                      {"alone_us", r.alone_us},
                      {"standing", rounded(r.standing_us)},
                      {"beside", rounded(r.beside_us)},
                      {"skipped", r.skipped},
                      {"refused", r.refused},
                      {"difference", r.difference}};
    dog.step("comparison of memory", 120);
    if (r.skipped.empty() && r.refused.empty() && r.difference.empty())
      found.add(std::move(line), std::move(r.left));
    else
      write_line(line);
    found.take_ready();
  }
  dog.step("comparison of memory", 120);
  found.take_all();
  dog.rest();
}

} // namespace

void run_child(const run_options& o) {
  try {
    run_cases(o);
  } catch (const std::exception& wrong) {
    write_line({{"error", wrong.what()}});
    leave(1);
  }
  leave(0);
}

} // namespace preemption_torture
