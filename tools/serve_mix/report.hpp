// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include "common/input/model_slowdowns.hpp"
#include "common/report/latency.hpp"

#include <gsched/core/time.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/dispatch/statistics.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace serve_mix {

struct model_result {
  std::string name;
  std::uint64_t submitted = 0;
  std::vector<gsched::duration> latencies; ///< of finished requests, in order of their end
};

struct client_result {
  std::uint64_t submitted = 0;
  std::vector<gsched::duration> latencies;
};

/// Behind the name of a policy: with the rule of --slow-down-limit.
inline constexpr const char* apart_suffix = " apart";

/// The results of one policy. The four end states add up to submitted.
struct run_result {
  std::string policy;
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::uint64_t rejected = 0;
  std::uint64_t over_limit = 0; ///< of the rejected: dispatch_options::max_jobs were active
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;
  gsched::duration span{}; ///< device time from the first arrival to the last end
  std::vector<gsched::duration> latencies;
  std::vector<model_result> per_model; ///< in the mix's order
  std::vector<client_result> per_client;
  std::optional<std::uint64_t> deadlines_met; ///< set if there is an SLO
  double gpu_busy_fraction = 0.0;
  std::uint64_t operations = 0; ///< that the device ran
  std::uint64_t decisions = 0;  ///< that the policy took
  bool apart = false;           ///< with --slow-down-limit
  gsched::neighbour_statistics neighbours{};
  double wall_s = 0.0; ///< the one field that is not reproducible

  run_result(std::string policy_name, const options& from);

  void submit(std::size_t model, std::size_t of_client);
  /// Counts a finished request, and whether it met its deadline, if there is an SLO.
  void finish(std::size_t model, std::size_t of_client, gsched::duration latency, bool in_time);
  [[nodiscard]] double throughput_per_s() const noexcept;
  /// The policy, and whether models were kept apart.
  [[nodiscard]] std::string label() const { return apart ? policy + apart_suffix : policy; }
};

/// The largest number of requests of a run; a trace can hold fewer than --requests allows.
[[nodiscard]] std::uint64_t requests_of(std::span<const run_result> runs);

/// What is measured before the runs, and follows from it.
struct workload_facts {
  std::string device_name;                  ///< empty for the device that ships with the library
  std::vector<gsched::duration> solo;       ///< of each model of the mix, alone on the device
  gsched::duration mean_solo{};             ///< of the mix: by weight
  std::optional<double> rate_per_s;         ///< offered; unset when the arrivals are a closed loop
  std::optional<double> load;               ///< rate times mean_solo
  std::vector<found_slowdowns> slowdowns{}; ///< with --slow-down-limit, as --slow-downs
  std::shared_ptr<const gsched::corun_rule> apart{};
};

/// Pairs of models on which two sources decide, and on how many of them alike: apart or not.
struct agreement {
  std::size_t alike = 0;
  std::size_t pairs = 0; ///< that both know
};
[[nodiscard]] agreement agreement_of(const found_slowdowns& a, const found_slowdowns& b,
                                     double limit);

/// Errors   none; look at the stream.
void write_json(std::ostream& out, const options& from, const workload_facts& facts,
                std::span<const run_result> runs);

/// A table with a line for each policy; the best value of each column is marked, and bold on a
/// terminal.
void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal);

} // namespace serve_mix
