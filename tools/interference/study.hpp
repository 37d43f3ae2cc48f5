// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/error_summary.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace interference {

/// The groups that an error is stated for, and how their slow-downs are estimated.
enum class subject {
  disjoint,       ///< SMs of their own, kernel by kernel
  disjoint_means, ///< the same from means of whole graphs: what planners use
  shared_kernels, ///< all SMs shared, kernel by kernel
};
inline constexpr std::size_t subjects = 3;

[[nodiscard]] std::string_view name_of(subject s) noexcept;

/// The predicted slow-down of one graph of a group.
struct prediction {
  std::size_t group = 0;
  std::size_t side = 0;
  double slowdown = 1;
};

/// Errors of one subject: on the rows of the fit, and on held-out rows and models, which judge it.
struct findings {
  subject what = subject::disjoint;
  gsched::error_summary seen;                           ///< on the rows of the fit
  std::optional<gsched::error_summary> rows_left_out;   ///< each row by a fit without it
  std::optional<gsched::error_summary> models_left_out; ///< each model by a fit without it
  std::map<std::string, gsched::error_summary> by_model_left_out;
  std::optional<gsched::error_summary> without_profiles; ///< models left out, from counters alone
  std::optional<gsched::error_summary> test;             ///< of other files
  std::optional<gsched::error_summary> test_known; ///< of them, groups of models that the fit has
  std::optional<gsched::error_summary> test_new;   ///< of them, with a model that the fit lacks
  std::vector<prediction> test_predictions;
};

/// Rows are held out in so many parts: row i is in part i % parts.
inline constexpr std::size_t row_parts = 5;

/// Called after each fit.
using on_progress = std::function<void()>;

/// How many fits `study` makes.
[[nodiscard]] std::size_t fits_of(const group_set& all, bool once);

/// The slow-down of each graph of a group. A model that is `unseen` is predicted as if it had no
/// profile.
[[nodiscard]] std::vector<double> predict(const gsched::interference_coefficients& c,
                                          const known_group& g, bool kernels,
                                          const std::string* unseen = nullptr,
                                          const gsched::replay_window& window = {});

/// The same of many groups, on as many threads as the machine has cores: by group, then graph.
[[nodiscard]] std::vector<std::vector<double>>
predict_all(const gsched::interference_coefficients& c, std::span<const known_group* const> groups,
            bool kernels, const std::string* unseen = nullptr,
            const gsched::replay_window& window = {});

/// Values that no measurement decides, as a neutral start of a fit.
[[nodiscard]] gsched::interference_coefficients neutral_coefficients() noexcept;

/// Fits the coefficients to all groups, starting from those in `into`, and stores them there; then,
/// unless `once`, again with parts held out, each time drawn to the same start. Groups on SMs of
/// their own decide them; those that share SMs decide none, and only widen the range that was seen.
/// Errors   those of the fits.
[[nodiscard]] std::vector<findings> study(const group_set& all, const std::vector<subject>& asked,
                                          bool once, gsched::interference_coefficients& into,
                                          const on_progress& progress);

/// The errors of given coefficients, without a fit.
[[nodiscard]] findings judge(const group_set& all, subject what,
                             const gsched::interference_coefficients& from);

/// Adds the predictions of other groups. `fitted` are the groups of the fit; null where unknown.
void test(findings& into, const group_set& others, const group_set* fitted,
          const gsched::interference_coefficients& from);

/// Whether the mean demands of a group, or the number of its graphs, exceed those that a fit has
/// seen; names the resources, or is empty.
[[nodiscard]] std::string beyond_seen(const gsched::seen_range& seen, const known_group& g);

} // namespace interference
