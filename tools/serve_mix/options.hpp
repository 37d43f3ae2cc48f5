// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/cli/output_options.hpp"
#include "common/input/model_slowdowns.hpp"
#include "common/run/segment_options.hpp"

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/policy/names.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace serve_mix {

using namespace common; // what it shares with other programs

/// The default workload: many short requests beside a few long ones that fill the GPU.
inline constexpr const char* default_mix = "resnet18_b1=9,vgg16_b32=1";

/// The default number of requests; those on a GPU take real time.
inline constexpr std::uint64_t default_requests = 2000;
inline constexpr std::uint64_t default_gpu_requests = 500;

/// One model of the mix and the profile that stands for it.
struct mix_entry {
  std::string name; ///< stem of the profile's file
  double weight = 1.0;
  std::filesystem::path profile;
};

enum class arrival_law { poisson, lognormal, closed, trace };

struct arrival_options {
  arrival_law law = arrival_law::poisson;
  std::string text = "poisson"; ///< as typed
  double sigma = 0.0;           ///< lognormal
  std::uint32_t in_flight = 0;  ///< closed: requests under way at any time, over all clients
  std::filesystem::path file;   ///< trace
  [[nodiscard]] bool open_loop() const noexcept {
    return law == arrival_law::poisson || law == arrival_law::lognormal;
  }
};

/// Deadlines of requests, from their arrival: a time, or multiples of what their model takes alone,
/// drawn uniformly for each request.
struct slo_rule {
  std::string text;           ///< as typed
  gsched::duration time{};    ///< where `of_solo` is false
  bool of_solo = false;       ///< the multiples count
  double least = 0, most = 0; ///< equal: nothing is drawn

  [[nodiscard]] bool draws() const noexcept { return least < most; }
};

/// The options, checked: names exist, numbers are in range, paths can be used.
struct options : device_choice, outputs, segment_settings {
  std::vector<mix_entry> mix;
  std::uint32_t clients = 8;
  std::vector<double> weights{1.0}; ///< of the first clients; the last of all others
  bool evict = false;               ///< dispatch_options::evict_on_preempt
  std::optional<double> load;       ///< one of load and rate is set if the arrivals are open-loop
  std::optional<double> rate;       ///< requests per second
  arrival_options arrivals;
  std::uint64_t requests = default_requests;
  std::vector<std::string> policies; ///< of common::policy_names(), none twice
  gsched::policy_parameters parameters;
  bool all_policies = false; ///< "all" was asked for
  std::optional<slo_rule> slo;
  std::uint64_t seed = 1;

  std::uint32_t lanes = 8;                  ///< streams that scheduled jobs borrow
  std::optional<std::uint32_t> spare_lanes; ///< as dispatch_options has it
  std::optional<double> slow_down_limit;    ///< of each model beside the others
  std::vector<slowdown_source> slowdowns;   ///< the first one decides; empty without a limit
  gsched::duration most_wait = gsched::corun_options::default_most_wait;
  gsched::duration decision_delay{}; ///< time that a decision takes the host
  gsched::submission submission = gsched::submission::graph;
  std::size_t threads = 1; ///< on which policies run, where that changes no result

  /// Whether anything is drawn from the seed.
  [[nodiscard]] bool draws() const noexcept {
    return arrivals.law != arrival_law::trace || (slo && slo->draws());
  }
};

/// Reads the command line. Nothing when it asked for help, which is then printed on stdout.
/// Errors   gsched::error with one line: what, where, what was expected.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv);

} // namespace serve_mix
