// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/job/profile.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace interference {

using model_batch = std::pair<std::string, std::uint32_t>;
using profile_set = std::map<model_batch, gsched::profile>;

/// A measured pair, with what is known of each of its graphs alone.
struct known_pair {
  gsched::corun_pair row;
  bool shared = false;
  std::array<gsched::bandwidth, 2> takes{};
  std::array<const gsched::kernel_chain*, 2> chains{};    ///< shared
  std::array<const gsched::kernel_chain*, 2> stand_ins{}; ///< shared: without its profile

  [[nodiscard]] bool has(const std::string& model) const {
    return row.side[0].model == model || row.side[1].model == model;
  }
};

/// Measured pairs with what predictions need. Immovable, as pairs point into it.
class pair_set {
public:
  /// Errors   gsched::error (unknown_name) for a pair without solo metrics: one line that begins
  ///          with `file` and names `solo_file`; (bad_profile) for a profile of another GPU.
  pair_set(std::vector<gsched::corun_pair> rows, const gsched::solo_table& solo,
           const profile_set& profiles, gsched::sm_count device, const std::string& file,
           const std::string& solo_file);
  pair_set(const pair_set&) = delete;
  pair_set& operator=(const pair_set&) = delete;

  [[nodiscard]] const std::vector<known_pair>& pairs() const noexcept { return pairs_; }
  [[nodiscard]] const std::set<std::string>& models() const noexcept { return models_; }
  /// Those that share SMs and have no profile.
  [[nodiscard]] const std::set<model_batch>& without_profile() const noexcept { return without_; }

private:
  std::map<model_batch, gsched::kernel_chain> chains_, stand_ins_;
  std::vector<known_pair> pairs_;
  std::set<std::string> models_;
  std::set<model_batch> without_;
};

} // namespace interference
