// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace common {

/// Where slow-downs of models beside each other come from.
struct slowdown_source {
  enum class kind { predicted, measured, pairs };
  std::string text; ///< as typed
  kind how = kind::predicted;
  std::filesystem::path file{}; ///< of coefficients, or of measured pairs
};

/// `predicted`, by the law that ships; LAW.json, by another one; or PAIRS.csv.
/// Errors   as to_file; `where` is the option, or the place in a file, and `expected` names them
///          all.
[[nodiscard]] slowdown_source to_slowdown_source(const std::string& where, const std::string& text,
                                                 const std::string& expected);

/// A model that may have neighbours.
struct neighbour_model {
  std::string name; ///< for messages
  const gsched::profile* profile = nullptr;
  std::filesystem::path file{}; ///< of the profile
};

/// By model, then neighbour.
template <class T>
using by_pair = std::vector<std::vector<T>>;

/// The slow-down of each model beside each.
struct found_slowdowns {
  std::string from;                    ///< predicted, measured or a file
  by_pair<std::optional<double>> by{}; ///< none where the file has no such pair
  by_pair<std::string> beyond{};       ///< resources of which both take more than the fit has seen

  found_slowdowns(std::string source, std::size_t models)
      : from(std::move(source)), by(models, std::vector<std::optional<double>>(models)) {}

  /// Of model i beside j, and of j beside i.
  void set(std::size_t i, std::size_t j, const std::array<double, 2>& slow) {
    by[i][j] = i == j && slow[1] > slow[0] ? slow[1] : slow[0];
    if (i != j) by[j][i] = slow[1];
  }
};

/// From the counters of the models' kernels, by the law of a file, on as many threads as the
/// machine has cores. `program` and `where` are for messages, as is `other`: what to name instead
/// for a model without counters.
/// Errors   bad_option, one line: a model whose kernels have no counters; profiles and a law of
///          different GPUs. Those of load_coefficients.
[[nodiscard]] found_slowdowns predicted_slowdowns(const char* program, const std::string& where,
                                                  const slowdown_source& law,
                                                  const gsched::architecture_limits& sm,
                                                  std::span<const neighbour_model> models,
                                                  const std::string& other);

/// Says in one line on stderr which of these were extrapolated, if any was.
void warn_of_extrapolation(const char* program, std::span<const neighbour_model> models,
                           const found_slowdowns& found);

/// Of a file of measured pairs: those that share all SMs, by the profiles' models and batches.
/// Errors   bad_option, one line: a file without a pair of the models. Those of load_corun_pairs.
[[nodiscard]] found_slowdowns paired_slowdowns(const std::string& where,
                                               const slowdown_source& pairs,
                                               std::span<const neighbour_model> models);

/// The rule that keeps apart models that slow each other beyond these limits. A pair without a
/// slow-down may run side by side. Errors   as corun_rule.
[[nodiscard]] gsched::corun_rule rule_of(std::span<const gsched::corun_limit> models,
                                         const found_slowdowns& found);

} // namespace common
