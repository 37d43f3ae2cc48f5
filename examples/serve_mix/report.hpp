// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace serve_mix {

/// Exact: by nearest rank over all values. All zero when there is none.
struct latency_summary {
  gsched::duration mean{};
  gsched::duration p50{};
  gsched::duration p90{};
  gsched::duration p99{};
  gsched::duration max{};
};
[[nodiscard]] latency_summary summarize(std::vector<gsched::duration> latencies);

struct model_result {
  std::string name;
  std::uint64_t submitted = 0;
  std::vector<gsched::duration> latencies; ///< of finished requests, in order of their end
};

struct client_result {
  std::uint64_t submitted = 0;
  std::vector<gsched::duration> latencies;
};

/// One policy's run. The four end states add up to submitted.
struct run_result {
  std::string policy;
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::uint64_t rejected = 0;
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
  double wall_s = 0.0;          ///< the one field that is not reproducible

  run_result(std::string policy_name, const options& from);

  void submit(std::size_t model, std::size_t of_client);
  /// Counts a finished request; it met its deadline if its latency is within the SLO.
  void finish(std::size_t model, std::size_t of_client, gsched::duration latency);
  [[nodiscard]] double throughput_per_s() const noexcept;

private:
  std::optional<gsched::duration> slo_;
};

/// What follows from options and profiles together.
struct workload_facts {
  std::string device_name;          ///< empty for the device that ships with the library
  gsched::duration mean_solo{};     ///< of the mix: by weight, each model alone on the device
  std::optional<double> rate_per_s; ///< offered; unset when the arrivals are a closed loop
  std::optional<double> load;       ///< rate times mean_solo
};

/// Errors   none; look at the stream.
void write_json(std::ostream& out, const options& from, const workload_facts& facts,
                std::span<const run_result> runs);

/// For people: one line a policy, the best value of each column marked. Bold on a terminal.
void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal);

/// Opens, writes and closes a file. Errors   gsched::error (io), naming the path.
void save(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

/// A bar on stderr that is redrawn as the share done rises; silent if not enabled.
class progress_bar {
public:
  progress_bar(std::string label, std::uint64_t total, bool enabled);
  ~progress_bar(); ///< wipes the line
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  void update(std::uint64_t done);

private:
  std::string label_;
  std::uint64_t total_;
  int drawn_ = -1; ///< percent on the screen
  bool enabled_;
};

} // namespace serve_mix
