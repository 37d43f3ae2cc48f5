// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/error_summary.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace interference {

/// A law that is fitted, with the pairs that it applies to.
enum class subject { disjoint, shared, shared_kernels };

[[nodiscard]] std::string_view name_of(subject s) noexcept;

/// The predicted slow-down of one side of a pair.
struct prediction {
  std::size_t pair = 0;
  std::size_t side = 0;
  double slowdown = 1;
};

/// Errors of one law: on the rows of the fit, and on held-out rows and models, which judge it.
struct findings {
  subject what = subject::disjoint;
  gsched::error_summary seen;                           ///< on the rows of the fit
  std::optional<gsched::error_summary> rows_left_out;   ///< each row by a fit without it
  std::optional<gsched::error_summary> models_left_out; ///< each model by a fit without it
  std::map<std::string, gsched::error_summary> by_model_left_out;
  std::optional<gsched::error_summary> without_profiles; ///< models left out, from counters alone
  std::optional<gsched::error_summary> test;             ///< of other files
  std::optional<gsched::error_summary> test_known; ///< of them, pairs of models that the fit has
  std::optional<gsched::error_summary> test_new;   ///< of them, with a model that the fit lacks
  std::vector<prediction> test_predictions;
};

/// Rows are held out in so many parts: row i is in part i % parts.
inline constexpr std::size_t row_parts = 5;

/// Called after each fit.
using on_progress = std::function<void()>;

/// How many fits `study` makes.
[[nodiscard]] std::size_t fits_of(const pair_set& pairs, subject what, bool once);

/// A sharing law that depends on no pair, as a neutral start of a fit.
[[nodiscard]] gsched::sharing_law neutral_law() noexcept;

/// Fits one law on all its pairs, starting from the coefficients in `into`, and stores it there;
/// then, unless `once`, again with parts held out, each time from the same start.
/// Errors   those of the fits.
[[nodiscard]] findings study(const pair_set& pairs, subject what, bool once,
                             gsched::interference_coefficients& into, const on_progress& progress);

/// The errors of the coefficients in `from`, without a fit.
[[nodiscard]] findings judge(const pair_set& pairs, subject what,
                             const gsched::interference_coefficients& from);

/// Adds the predictions of other pairs. `fitted` are the pairs of the fit; null where unknown.
void test(findings& into, const pair_set& others, const pair_set* fitted,
          const gsched::interference_coefficients& from);

} // namespace interference
