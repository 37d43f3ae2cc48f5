// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// A split of a GPU with a demand for each partition: a column of the linear program.
struct priced_column {
  double worth = 0;            ///< at the given prices
  std::vector<double> parts{}; ///< by demand: the part of it that the column serves
};

/// A bound with its proof.
struct master_bound {
  double scale = std::numeric_limits<double>::infinity(); ///< of all demands
  std::vector<double> prices{}; ///< of each whole demand; they add up to 1
  std::vector<double> worths{}; ///< by kind of GPU: worth of its best column at these prices
};

/// The master problem of column generation: the largest scale at which GPUs serve all demands, if
/// each GPU may run a mixture of columns. `best_column(kind, prices)` solves the pricing problem:
/// it returns the column with the highest worth.
///
/// Source   revised simplex with a dense inverse; columns are generated on demand (Gilmore and
///          Gomory, Operations Research 9(6), 1961, doi:10.1287/opre.9.6.849).
/// Cost     O(steps x ((demands + kinds)^2 + best_column)).
template <class BestColumn>
class master_problem {
public:
  /// `gpus` is the number of GPUs of each kind.
  master_problem(std::size_t demands, std::vector<std::uint32_t> gpus, BestColumn best_column)
      : best_column_(std::move(best_column)), gpus_(std::move(gpus)), demands_(demands),
        rows_(demands + gpus_.size()), inverse_(rows_ * rows_, 0.0), level_(rows_) {
    for (std::size_t i = 0; i < rows_; ++i) inverse_[i * rows_ + i] = 1;
    // A tiny amount of each demand is free, a different one each: no two rows are alike.
    for (std::size_t d = 0; d < demands_; ++d)
      level_[d] = 1e-8 * (1 + std::fmod(static_cast<double>(d + 1) * 0.6180339887, 1.0));
    for (std::size_t k = 0; k < gpus_.size(); ++k)
      level_[demands_ + k] = static_cast<double>(gpus_[k]);
  }

  /// Solves for at least one demand. Ends at the first bound below `enough`.
  [[nodiscard]] master_bound solve(std::size_t most_steps, double enough = 0) {
    master_bound best;
    best.prices.assign(demands_, 0.0);
    for (std::size_t step = 0; step < most_steps && best.scale >= enough; ++step)
      if (std::vector<double> column = next(best); column.empty() || !enter(column)) break;
    return best;
  }

private:
  /// The entering column; empty at the optimum. Rows are in parts of each demand.
  [[nodiscard]] std::vector<double> next(master_bound& best) {
    std::vector<double> column(rows_, 0.0);
    scale_enters_ = !scale_row_;
    if (scale_enters_) {
      std::fill_n(column.begin(), demands_, 1.0);
      return column;
    }
    const double* const dual = inverse_.data() + *scale_row_ * rows_;
    const std::size_t lowest =
        static_cast<std::size_t>(std::min_element(dual, dual + rows_) - dual);
    std::vector<double> prices(demands_), worths;
    double all = 0;
    for (std::size_t d = 0; d < demands_; ++d) all += prices[d] = std::max(0.0, dual[d]);
    double bound = 0, most_gain = 1e-9;
    std::optional<std::pair<std::size_t, priced_column>> chosen;
    for (std::size_t k = 0; k < gpus_.size(); ++k) {
      priced_column column_of_kind = best_column_(k, std::span<const double>(prices));
      worths.push_back(column_of_kind.worth / all);
      bound += column_of_kind.worth * static_cast<double>(gpus_[k]);
      if (const double gain = column_of_kind.worth - dual[demands_ + k]; gain > most_gain) {
        most_gain = gain;
        chosen.emplace(k, std::move(column_of_kind));
      }
    }
    if (bound / all < best.scale) {
      best.scale = bound / all;
      best.worths = std::move(worths);
      for (std::size_t d = 0; d < demands_; ++d) best.prices[d] = prices[d] / all;
    }
    if (best.scale <= level_[*scale_row_] * (1 + 1e-7)) return {};
    if (dual[lowest] < -1e-9) {
      column[lowest] = 1; // its slack
      return column;
    }
    if (!chosen) return {};
    for (std::size_t d = 0; d < demands_; ++d) column[d] = -chosen->second.parts[d];
    column[demands_ + chosen->first] = 1;
    return column;
  }

  /// Brings a column into the basis. Returns false if the scale is unbounded.
  [[nodiscard]] bool enter(const std::vector<double>& column) {
    std::vector<double> change(rows_, 0.0);
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < rows_; ++j) change[i] += inverse_[i * rows_ + j] * column[j];
    std::size_t out = rows_;
    for (std::size_t i = 0; i < rows_; ++i)
      if (change[i] > 1e-11 && (out == rows_ || level_[i] * change[out] < level_[out] * change[i]))
        out = i;
    if (out == rows_) return false;
    const double by = level_[out] / change[out];
    double* const leaving = inverse_.data() + out * rows_;
    for (std::size_t j = 0; j < rows_; ++j) leaving[j] /= change[out];
    for (std::size_t i = 0; i < rows_; ++i) {
      if (i == out) continue;
      level_[i] = std::max(0.0, level_[i] - by * change[i]);
      for (std::size_t j = 0; change[i] != 0 && j < rows_; ++j)
        inverse_[i * rows_ + j] -= change[i] * leaving[j];
    }
    level_[out] = by;
    if (scale_row_ == out) scale_row_.reset();
    if (scale_enters_) scale_row_ = out;
    return true;
  }

  BestColumn best_column_;
  std::vector<std::uint32_t> gpus_;
  std::size_t demands_, rows_;
  std::vector<double> inverse_, level_; ///< of the basis, by row
  std::optional<std::size_t> scale_row_;
  bool scale_enters_ = false;
};

} // namespace gsched::detail
