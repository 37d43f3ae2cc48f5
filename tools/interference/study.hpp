// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/error_summary.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace interference {

/// What is fitted: a law, and which pairs it is for.
enum class subject { disjoint, shared, shared_kernels };

[[nodiscard]] std::string_view name_of(subject s) noexcept;

/// Of one side of a pair.
struct prediction {
  std::size_t pair = 0;
  std::size_t side = 0;
  double slowdown = 1;
};

/// Errors of one law. What a fit has seen is no measure of it; what was left out is.
struct findings {
  subject what = subject::disjoint;
  gsched::error_summary seen;                           ///< by the fit, or told by a file
  std::optional<gsched::error_summary> rows_left_out;   ///< each row by a fit that has not seen it
  std::optional<gsched::error_summary> models_left_out; ///< and none with one of its models
  std::map<std::string, gsched::error_summary> by_model_left_out;
  std::optional<gsched::error_summary> without_profiles; ///< models left out, from counters alone
  std::optional<gsched::error_summary> test;             ///< of other files
  std::optional<gsched::error_summary> test_known; ///< of them, pairs of models that the fit has
  std::optional<gsched::error_summary> test_new;   ///< of them, with a model that it has not
  std::vector<prediction> test_predictions;
};

/// `rows` are left out in so many parts: row i is in part i % parts.
inline constexpr std::size_t row_parts = 5;

/// Told after each fit.
using on_progress = std::function<void()>;

/// How many fits `study` makes.
[[nodiscard]] std::size_t fits_of(const pair_set& pairs, subject what, bool once);

/// A sharing law of one who has seen no pair: where a fit can begin that is to find out for itself.
[[nodiscard]] gsched::sharing_law neutral_law() noexcept;

/// Fits one law on all its pairs, beginning with what `into` has, and puts it there; then
/// again with parts left out, each time from the same beginning, if not to be done once alone.
/// Errors   those of the fits.
[[nodiscard]] findings study(const pair_set& pairs, subject what, bool once,
                             gsched::interference_coefficients& into, const on_progress& told);

/// As it is in `from`, without a fit.
[[nodiscard]] findings judge(const pair_set& pairs, subject what,
                             const gsched::interference_coefficients& from);

/// Adds what it says of other pairs. `fitted` is what the fit has seen; null where nobody knows.
void test(findings& into, const pair_set& others, const pair_set* fitted,
          const gsched::interference_coefficients& from);

} // namespace interference
