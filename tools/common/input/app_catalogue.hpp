// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/workload/app.hpp>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace common {

/// The apps that options can name: each model of a table, as an app of one stage, and apps of files
/// or that ship. The models come first, in the table's order.
///
/// Errors   gsched::error with one line, for each of its functions.
class app_catalogue {
public:
  /// The table outlives it.
  explicit app_catalogue(const gsched::latency_table& t);

  /// A model, an app that was read, or one that ships.
  [[nodiscard]] std::optional<std::size_t> find(const std::string& name);

  /// An app, by its index, and its rate; no rate where only a name was given.
  struct requested_app {
    std::size_t which;
    std::optional<double> rate; ///< requests a second
  };
  /// --rates and --app: MODEL=RATE,... and APP or APP=RATE,..., where an app is a file or ships.
  [[nodiscard]] std::vector<requested_app> read(const std::string& rates, const std::string& apps);

  /// --slo and --slo-factor, of what is asked for: places of it, once all apps are known. An app
  /// that --slo does not name has the longest SLO of its models.
  /// Errors   bad_option too for an SLO of a model, or app, that is not asked for.
  void set_slos(const std::string& slo, const std::string& slo_factor, gsched::sm_count all,
                const std::set<std::size_t>& asked_for);

  /// Whether --slo-factor has an effect: false where --slo names all apps that have rates.
  [[nodiscard]] bool uses_slo_factor() const noexcept { return uses_slo_factor_; }

  [[nodiscard]] const gsched::app& operator[](std::size_t i) const { return apps_[i]; }
  /// All of them, in their order.
  [[nodiscard]] std::vector<gsched::app> take() && { return std::move(apps_); }
  /// Of the models of the table.
  [[nodiscard]] const std::vector<gsched::duration>& slos() const noexcept { return slos_; }

private:
  [[nodiscard]] std::size_t add(const std::string& file_or_name);

  const gsched::latency_table& table_;
  std::vector<gsched::app> apps_;
  std::vector<gsched::duration> slos_;
  bool uses_slo_factor_ = false;
};

} // namespace common
