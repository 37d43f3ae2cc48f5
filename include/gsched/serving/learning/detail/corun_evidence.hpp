// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/interference/corun_factors.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Standard deviations of logarithms, see corun_learning_options.
struct corun_errors {
  double factor = 0, table = 0, cell = 0, noise = 0;
};

/// Factors of a model, and the noise of its equations as a standard deviation.
struct learned_factors {
  corun_factors factors{};
  corun_factor_errors errors{};
  double noise = 0;
};

/// Batches that ran beside others, as equations for the factors of the models: for a batch
///     miss + slopes . logarithms of the factors = error of the table's latency + noise.
/// Equations of one model, batch size and partition size, a cell, have the table's error in common.
/// So the mean of a cell tells little, and the differences from it, within a cell, tell of the
/// factors alone. Both are summed up; no equation is kept.
///
/// Source   random effects, as in Henderson's mixed model equations, Biometrics 31(2), 1975,
///          doi:10.2307/2529430.
/// Units    slopes of an equation: of the sensitivity of its model, then of the pressure of each
///          model.
/// Threads  one owner.
class corun_evidence {
public:
  /// The equations of batches of one model, batch size and partition size.
  struct cell {
    std::uint32_t batch = 0;
    sm_count sms{};
    double count = 0; ///< equations; older ones count as less than one
    double miss = 0;  ///< mean
    std::vector<double> slopes{};
  };

  explicit corun_evidence(std::size_t models) : of_(models) {
    const std::size_t n = models + 1;
    for (model_evidence& e : of_) {
      e.products.resize(n * n);
      e.misses.resize(n);
    }
    apart_.resize(n);
  }

  /// Cost     O(models^2).
  void add(std::size_t model, std::uint32_t batch, sm_count sms, double miss,
           std::span<const double> slopes) {
    model_evidence& e = of_[model];
    ++e.watched;
    cell& c = cell_of(e, batch, sms);
    c.count += 1;
    const double miss_apart = miss - c.miss;
    c.miss += miss_apart / c.count;
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      apart_[i] = slopes[i] - c.slopes[i];
      c.slopes[i] += apart_[i] / c.count;
    }
    const bool is_beside =
        std::any_of(slopes.begin(), slopes.end(), [](double s) { return s != 0; });
    e.beside += is_beside ? 1 : 0;
    const double part = (c.count - 1) / c.count;
    e.squares += part * miss_apart * miss_apart;
    e.differences += part > 0 ? 1 : 0;
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      if (apart_[i] == 0) continue;
      e.misses[i] += part * apart_[i] * miss_apart;
      for (std::size_t j = 0; j < slopes.size(); ++j)
        e.products[i * slopes.size() + j] += part * apart_[i] * apart_[j];
    }
  }

  /// Null: there are none.
  [[nodiscard]] const cell* mean(std::size_t model, std::uint32_t batch,
                                 sm_count sms) const noexcept {
    for (const cell& c : of_[model].cells)
      if (c.batch == batch && c.sms == sms) return &c;
    return nullptr;
  }

  /// Reduces the weight of all equations to this part.
  void fade(double part) {
    for (model_evidence& e : of_) fade(e, part);
  }
  /// Reduces the weight of a model's equations with slopes to that of so many. Those without, of
  /// batches that ran alone, take none of their weight.
  void keep_at_most(double equations) {
    for (model_evidence& e : of_) {
      if (e.beside > equations) fade(e, equations / e.beside);
      for (cell& c : e.cells) c.count = std::min(c.count, equations);
    }
  }

  /// The factors that agree best with the equations, and with 1. The noise of a model's equations
  /// is what they leave, at least `errors.noise`.
  /// Cost     O(models^2 x (models + cells of a model)): 0.02 ms for 5 models, 3.4 for 50
  ///          (`./dev bench corun_learning`).
  [[nodiscard]] std::vector<learned_factors> solve(const corun_errors& errors) const {
    const std::size_t models = of_.size();
    std::vector<double> noise(models, errors.noise), x(3 * models);
    normal_equations all = sum_up(errors, noise);
    std::vector<double> lower = decompose(all.matrix);
    eliminate(lower, all.right, x);
    bool is_louder = false;
    for (std::size_t m = 0; m < models; ++m) {
      noise[m] = std::max(errors.noise, noise_left(m, x, errors.noise));
      is_louder |= noise[m] > errors.noise;
    }
    if (is_louder) {
      all = sum_up(errors, noise);
      lower = decompose(all.matrix);
      eliminate(lower, all.right, x);
    }
    descend(all.matrix, all.right, x);
    std::vector<learned_factors> found(models);
    for (std::size_t m = 0; m < models; ++m) {
      const std::size_t s = 3 * m + 1, p = 3 * m + 2;
      found[m] = {
          {std::exp(x[s]), std::exp(x[p])}, {error_of(lower, s), error_of(lower, p)}, noise[m]};
    }
    return found;
  }

  [[nodiscard]] std::uint64_t watched(std::size_t model) const noexcept {
    return of_[model].watched;
  }

private:
  struct model_evidence {
    std::vector<cell> cells{};
    std::vector<double> products{}; ///< of slopes, within cells: a square matrix
    std::vector<double> misses{};   ///< times slopes, within cells
    double squares = 0;             ///< of misses, within cells
    double differences = 0;         ///< so many independent ones are in these sums
    double beside = 0;              ///< equations with slopes
    std::uint64_t watched = 0;
  };

  /// Of least squares with unknowns x: matrix x = right.
  struct normal_equations {
    std::vector<double> matrix{}, right{};
  };

  [[nodiscard]] static double square(double x) noexcept { return x * x; }
  /// Of slope i of model m's equations, among the unknowns: for each model the logarithms of the
  /// table's error, of its sensitivity and of its pressure.
  [[nodiscard]] static std::size_t place(std::size_t m, std::size_t i) noexcept {
    return i == 0 ? 3 * m + 1 : 3 * (i - 1) + 2;
  }

  /// `noise` is by model.
  [[nodiscard]] normal_equations sum_up(const corun_errors& errors,
                                        std::span<const double> noise) const {
    const std::size_t models = of_.size(), n = 3 * models;
    normal_equations all{std::vector<double>(n * n), std::vector<double>(n)};
    for (std::size_t m = 0; m < models; ++m) {
      all.matrix[(3 * m) * n + 3 * m] = 1 / square(errors.table);
      all.matrix[(3 * m + 1) * n + 3 * m + 1] = 1 / square(errors.factor);
      all.matrix[(3 * m + 2) * n + 3 * m + 2] = 1 / square(errors.factor);
    }
    std::vector<std::pair<std::size_t, double>> row;
    for (std::size_t m = 0; m < models; ++m) {
      const model_evidence& e = of_[m];
      const double weight = 1 / square(noise[m]);
      for (std::size_t i = 0; i <= models; ++i) {
        all.right[place(m, i)] -= weight * e.misses[i];
        for (std::size_t j = 0; j <= models; ++j)
          all.matrix[place(m, i) * n + place(m, j)] += weight * e.products[i * (models + 1) + j];
      }
      for (const cell& c : e.cells) {
        row.assign(1, {3 * m, -1.0});
        for (std::size_t i = 0; i <= models; ++i)
          if (c.slopes[i] != 0) row.emplace_back(place(m, i), c.slopes[i]);
        const double of_mean = 1 / (square(errors.cell) + square(noise[m]) / c.count);
        for (const auto& [i, a] : row) {
          all.right[i] -= of_mean * a * c.miss;
          for (const auto& [j, b] : row) all.matrix[i * n + j] += of_mean * a * b;
        }
      }
    }
    return all;
  }

  /// What the equations of a model leave within cells, as a standard deviation. Of few it is
  /// `before`.
  [[nodiscard]] double noise_left(std::size_t model, std::span<const double> x,
                                  double before) const {
    constexpr double as_before = 10; // equations
    const model_evidence& e = of_[model];
    const std::size_t n = of_.size() + 1;
    double left = e.squares;
    for (std::size_t i = 0; i < n; ++i) {
      const double a = x[place(model, i)];
      left += 2 * a * e.misses[i];
      for (std::size_t j = 0; j < n; ++j) left += a * e.products[i * n + j] * x[place(model, j)];
    }
    return std::sqrt((std::max(left, 0.0) + as_before * square(before)) /
                     (e.differences + as_before));
  }

  static void fade(model_evidence& e, double part) {
    e.beside *= part;
    for (cell& c : e.cells) c.count *= part;
    std::erase_if(e.cells, [](const cell& c) { return c.count < 1e-2; });
    for (double& p : e.products) p *= part;
    for (double& m : e.misses) m *= part;
    e.squares *= part;
    e.differences *= part;
  }

  [[nodiscard]] cell& cell_of(model_evidence& e, std::uint32_t batch, sm_count sms) const {
    for (cell& c : e.cells)
      if (c.batch == batch && c.sms == sms) return c;
    cell& c = e.cells.emplace_back();
    c.batch = batch;
    c.sms = sms;
    c.slopes.resize(of_.size() + 1);
    return c;
  }

  /// Cholesky's lower triangle L of a positive definite A = L L'.
  [[nodiscard]] static std::vector<double> decompose(std::vector<double> a) {
    const std::size_t n = side_of(a);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        const double rest = a[i * n + j] - product(row(a, n, i), row(a, n, j), j);
        a[i * n + j] = i == j ? std::sqrt(std::max(rest, 1e-12)) : rest / a[j * n + j];
      }
    return a;
  }
  /// Solves L L' x = b.
  static void eliminate(std::span<const double> lower, std::span<const double> b,
                        std::span<double> x) {
    const std::size_t n = x.size();
    for (std::size_t i = 0; i < n; ++i)
      x[i] = (b[i] - product(row(lower, n, i), x, i)) / lower[i * n + i];
    for (std::size_t i = n; i-- > 0;) {
      x[i] /= lower[i * n + i];
      for (std::size_t j = 0; j < i; ++j) x[j] -= lower[i * n + j] * x[i];
    }
  }
  /// The standard deviation of an unknown: the root of its place on the diagonal of (L L')^-1.
  [[nodiscard]] static double error_of(std::span<const double> lower, std::size_t unknown) {
    const std::size_t n = side_of(lower);
    std::vector<double> y(n); // L y = a unit vector
    double sum = 0;
    for (std::size_t i = unknown; i < n; ++i) {
      y[i] = ((i == unknown ? 1 : 0) - product(row(lower, n, i), y, i)) / lower[i * n + i];
      sum += square(y[i]);
    }
    return std::sqrt(sum);
  }
  [[nodiscard]] static std::size_t side_of(std::span<const double> square_matrix) noexcept {
    return static_cast<std::size_t>(
        std::llround(std::sqrt(static_cast<double>(square_matrix.size()))));
  }
  [[nodiscard]] static std::span<const double> row(std::span<const double> square_matrix,
                                                   std::size_t n, std::size_t i) noexcept {
    return square_matrix.subspan(i * n, n);
  }
  [[nodiscard]] static double product(std::span<const double> p, std::span<const double> q,
                                      std::size_t count) noexcept {
    return std::inner_product(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(count), q.begin(),
                              0.0);
  }

  /// Minimises x A x / 2 - b x, for a positive definite A, with factors within their bounds: one
  /// unknown at a time, from `x` on.
  static void descend(std::span<const double> a, std::span<const double> b, std::span<double> x) {
    constexpr int most_sweeps = 500;
    constexpr double near = 1e-6;
    const std::size_t n = x.size();
    const double least = std::log(corun_factors::least), most = std::log(corun_factors::most);
    for (int sweep = 0; sweep < most_sweeps; ++sweep) {
      double moved = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::span<const double> row = a.subspan(i * n, n);
        const double rest = b[i] - std::inner_product(row.begin(), row.end(), x.begin(), 0.0);
        double to = x[i] + rest / row[i];
        if (i % 3 != 0) to = std::clamp(to, least, most);
        moved = std::max(moved, std::abs(to - x[i]));
        x[i] = to;
      }
      if (moved < near) return;
    }
  }

  std::vector<model_evidence> of_; ///< by model
  std::vector<double> apart_;
};

} // namespace gsched::detail
