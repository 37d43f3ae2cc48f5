// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/mean_pressure.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/partition/latency_table.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace interference {

using model_batch = std::pair<std::string, std::uint32_t>;
using profile_set = std::map<model_batch, gsched::profile>;

/// A graph of a measured group, with what is known of it alone.
struct known_side {
  gsched::corun_side row;
  gsched::mean_use use{};                ///< see means()
  bool endless = false;                  ///< a probe: its one kernel was there first, and stays
  double occupancy = 0;                  ///< achieved on all SMs, see rules.hpp
  const double* mean_pressure = nullptr; ///< as in solo_metrics; null: 1
  const gsched::kernel_chain* chain = nullptr;
  const gsched::kernel_chain* stand_in = nullptr; ///< without its profile; null where it has no
                                                  ///< solo metrics

  /// With the factors and the loss of its chain, and its pressure in predictions from means.
  [[nodiscard]] gsched::mean_use means() const {
    gsched::mean_use u = use;
    u.factors = chain->factors.times({1, mean_pressure != nullptr ? *mean_pressure : 1});
    u.lost = chain->lost;
    return u;
  }
};

/// Graphs that were measured side by side: two or more.
struct known_group {
  std::vector<known_side> sides;
  bool shared = false;
  std::string name{}; ///< what it belongs to; may be empty
  gsched::replay_window window{};
  std::size_t operation = 0; ///< of its last graph, where that is a single kernel

  [[nodiscard]] bool has(const std::string& model) const;
};

/// The GPU on which files were measured.
struct measured_gpu {
  gsched::sm_count sms{};
  gsched::architecture_limits sm{};
  std::optional<gsched::machine> known{}; ///< where a file says it
};

/// What predictions of graphs need: profiles, solo metrics and the chains made of them.
class workloads {
public:
  workloads(gsched::solo_table solo, std::string solo_file, const profile_set& profiles,
            measured_gpu gpu)
      : solo_(std::move(solo)), solo_file_(std::move(solo_file)), profiles_(&profiles),
        gpu_(std::move(gpu)) {}
  workloads(const workloads&) = delete;
  workloads& operator=(const workloads&) = delete;

  /// A group of them; a latency of 0 is estimated. A graph whose name begins with "probe_" is
  /// endless beside others that are not. Chains stay where they are as others are added.
  /// Errors   gsched::error (unknown_name) for a graph with neither solo metrics nor a profile with
  ///          counters: one line that begins with `file` and names that of the solo metrics;
  ///          (bad_profile) for a profile of another GPU.
  [[nodiscard]] known_group group(const std::vector<gsched::corun_side>& sides,
                                  const std::string& file);
  /// Gives a graph other factors, on any SMs.
  void set_factors(const model_batch& of, const gsched::corun_factors& factors);
  /// Gives a graph another loss, on any SMs.
  void set_loss(const model_batch& of, gsched::l2_loss lost);
  void set_start_loss(const model_batch& of, gsched::start_loss at_start);
  /// Gives a graph another pressure in predictions from means.
  void set_mean_pressure(const model_batch& of, double pressure) { mean_pressures_[of] = pressure; }

  /// The graphs, but probes, of which the table has the latency, and counters of the kernels and
  /// solo metrics are known.
  [[nodiscard]] std::vector<model_batch> counted(const gsched::latency_table& table) const;
  /// The solo metrics of one of these.
  [[nodiscard]] const gsched::solo_metrics& metrics(const model_batch& of) const {
    return *solo_.find(of.first, of.second);
  }
  /// One of these on half of the GPU's SMs, or on the fewest of the table if these are more, with
  /// the losses of these metrics.
  [[nodiscard]] gsched::chain_and_mean on_half(const model_batch& of,
                                               const gsched::latency_table& table,
                                               const gsched::solo_metrics& losses) const;
  [[nodiscard]] bool has_profile(const model_batch& of) const { return profiles_->contains(of); }
  [[nodiscard]] const profile_set& profiles() const noexcept { return *profiles_; }

  /// Those that were asked for and have no profile.
  [[nodiscard]] const std::set<model_batch>& without_profile() const noexcept { return without_; }

private:
  using place = std::tuple<std::string, std::uint32_t, std::uint32_t, std::int64_t>;

  void add(const gsched::corun_side& s, bool shared, const std::string& file, known_side& to);
  /// Calls `change` with each chain of a graph.
  template <class F>
  void for_each_chain(const model_batch& of, F change) {
    for (auto* const chains : {&chains_, &stand_ins_})
      for (auto& [at, chain] : *chains)
        if (std::get<0>(at) == of.first && std::get<1>(at) == of.second) change(chain);
  }

  gsched::solo_table solo_;
  std::string solo_file_;
  const profile_set* profiles_;
  measured_gpu gpu_;
  std::map<place, gsched::kernel_chain> chains_, stand_ins_;
  std::map<model_batch, double> mean_pressures_;
  std::set<model_batch> without_;
};

/// Measured groups with what predictions need.
struct group_set {
  std::vector<known_group> groups;
  std::set<std::string> models;

  void add(workloads& from, const std::vector<gsched::corun_side>& sides, const std::string& file);
  /// Keeps a chain for a group.
  const gsched::kernel_chain* keep(gsched::kernel_chain chain) {
    return &own.emplace_back(std::move(chain));
  }

  std::list<gsched::kernel_chain> own; ///< chains that no workloads keep
  std::size_t held_up = 0;   ///< rows left out: a kernel waits until the probe beside it ends
  std::size_t brief = 0;     ///< rows left out: of a kernel too short to time
  std::size_t transfers = 0; ///< rows left out: of copies between host and GPU, which are no kernel
};

} // namespace interference
