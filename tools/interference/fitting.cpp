// SPDX-License-Identifier: Apache-2.0
#include "interference/fitting.hpp"

#include <gsched/core/error.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <string>

namespace interference {

namespace {

using Eigen::Index;
using gsched::errc;
using gsched::error;

void expect_enough(std::size_t got, std::size_t values, const char* what) {
  if (got < values)
    throw error(errc::too_small, std::string(what) + ": " + std::to_string(got) +
                                     " measurements, expected at least as many as the " +
                                     std::to_string(values) + " coefficients");
}

/// Huber's.
double cost_of(const std::vector<double>& residuals, double outlier) {
  double sum = 0;
  for (const double r : residuals) {
    const double size = std::abs(r);
    sum += size <= outlier ? size * size / 2 : outlier * (size - outlier / 2);
  }
  return sum;
}

struct point {
  std::vector<double> values;
  std::vector<double> residuals;
  double cost = 0;
};

/// The places that fit_values looks at.
class search {
public:
  using function = std::function<std::vector<double>(std::span<const double>)>;
  search(const function& residuals, std::span<const unknown> unknowns, double outlier)
      : residuals_(residuals), unknowns_(unknowns), outlier_(outlier) {}

  [[nodiscard]] point at(std::vector<double> values) const {
    point p;
    for (std::size_t j = 0; j < values.size(); ++j)
      values[j] = std::clamp(values[j], unknowns_[j].least, unknowns_[j].most);
    p.residuals = residuals_(values);
    p.cost = cost_of(p.residuals, outlier_);
    for (std::size_t j = 0; j < values.size(); ++j) p.cost += std::pow(off(values, j), 2) / 2;
    p.values = std::move(values);
    return p;
  }

  /// One for each value: so many steps away, the other way where that is out of range.
  [[nodiscard]] std::vector<point> around(const point& now, double steps) const {
    std::vector<point> tried;
    for (std::size_t j = 0; j < now.values.size(); ++j) {
      const unknown& u = unknowns_[j];
      std::vector<double> v = now.values;
      const double step = steps * u.step;
      v[j] += v[j] + step > u.most || v[j] + step < u.least ? -step : step;
      tried.push_back(at(std::move(v)));
    }
    return tried;
  }

  /// By how many steps of its own each value is to move, were the residuals straight lines.
  [[nodiscard]] Eigen::VectorXd solved(const point& now, const std::vector<point>& tried) const {
    const auto m = static_cast<Index>(now.residuals.size());
    const auto n = static_cast<Index>(tried.size());
    Eigen::MatrixXd slopes(m, n);
    Eigen::VectorXd weight(m);
    Eigen::VectorXd residual(m);
    for (Index i = 0; i < m; ++i) {
      const auto r = static_cast<std::size_t>(i);
      residual(i) = now.residuals[r];
      weight(i) = std::min(1.0, outlier_ / std::max(std::abs(residual(i)), 1e-300));
      for (Index j = 0; j < n; ++j) {
        const auto c = static_cast<std::size_t>(j);
        const double steps = (tried[c].values[c] - now.values[c]) / unknowns_[c].step;
        slopes(i, j) = steps != 0 ? (tried[c].residuals[r] - residual(i)) / steps : 0;
      }
    }
    Eigen::MatrixXd normal = slopes.transpose() * weight.asDiagonal() * slopes;
    Eigen::VectorXd down = -slopes.transpose() * weight.cwiseProduct(residual);
    for (Index j = 0; j < n; ++j) {
      normal(j, j) += pull_ * pull_;
      down(j) -= pull_ * off(now.values, static_cast<std::size_t>(j));
    }
    return normal.ldlt().solve(down);
  }

  [[nodiscard]] point moved(const point& now, const Eigen::VectorXd& by, double part) const {
    std::vector<double> v = now.values;
    for (std::size_t j = 0; j < v.size(); ++j)
      v[j] += part * by(static_cast<Index>(j)) * unknowns_[j].step;
    return at(std::move(v));
  }

private:
  [[nodiscard]] double off(const std::vector<double>& v, std::size_t j) const {
    return pull_ * (v[j] - unknowns_[j].start) / unknowns_[j].step;
  }

  const function& residuals_;
  std::span<const unknown> unknowns_;
  double outlier_;
  double pull_ = 0.1; ///< as strong as one residual of that size a step
};

} // namespace

std::vector<double>
fit_values(const std::function<std::vector<double>(std::span<const double>)>& residuals,
           std::span<const unknown> unknowns, const char* what, double outlier,
           std::span<const double> first) {
  constexpr int most_rounds = 20;
  constexpr double gain = 1e-3; // less is not worth another round
  std::vector<double> start(first.begin(), first.end());
  if (first.empty())
    for (const unknown& u : unknowns) start.push_back(u.start);
  const search s(residuals, unknowns, outlier);
  point now = s.at(start);
  expect_enough(now.residuals.size(), unknowns.size(), what);
  for (int round = 0; round < most_rounds; ++round) {
    point best = now;
    const std::vector<point> up = s.around(now, 1);
    for (const std::vector<point>& tried : {up, s.around(now, -1)})
      for (const point& p : tried)
        if (p.cost < best.cost) best = p;
    const Eigen::VectorXd by = s.solved(now, up);
    for (const double part : {1.0, 0.5, 0.25}) {
      point p = s.moved(now, by, part);
      if (!(p.cost < best.cost)) continue;
      best = std::move(p);
      break;
    }
    const bool enough = best.cost >= now.cost * (1 - gain);
    if (best.cost < now.cost) now = std::move(best);
    if (enough) break;
  }
  return now.values;
}

} // namespace interference
