// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/learning/detail/corun_evidence.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched::testing {

namespace {

using detail::corun_errors;
using detail::learned_factors;

struct equation {
  double miss = 0;
  std::vector<double> slopes{};
};

/// All equations, by model, batch size and partition size.
struct equations {
  std::size_t models = 0;
  std::map<std::tuple<std::size_t, std::uint32_t, sm_count>, std::vector<equation>> cells{};

  /// The sum of squares that the factors leave, with the best error of each model's table.
  /// `factors`: logarithms of sensitivity and pressure, by model, as `noise` is.
  [[nodiscard]] double squares(const std::vector<double>& factors, const corun_errors& e,
                               const std::vector<double>& noise) const {
    double sum = 0;
    for (const double f : factors) sum += f * f / (e.factor * e.factor);
    std::vector<std::array<double, 3>> means(models, {1 / (e.table * e.table), 0, 0}); // moments
    for (const auto& [of, all] : cells) {
      const std::size_t m = std::get<0>(of);
      const double variance = noise[m] * noise[m];
      double mean = 0;
      std::vector<double> left;
      for (const equation& q : all) {
        double r = q.miss + q.slopes[0] * factors[2 * m];
        for (std::size_t i = 0; i < models; ++i) r += q.slopes[i + 1] * factors[2 * i + 1];
        left.push_back(r);
        mean += r / static_cast<double>(all.size());
      }
      for (const double r : left) sum += (r - mean) * (r - mean) / variance;
      const double weight = 1 / (e.cell * e.cell + variance / static_cast<double>(all.size()));
      means[m][0] += weight;
      means[m][1] += weight * mean;
      means[m][2] += weight * mean * mean;
    }
    for (const auto& [weight, first, second] : means) sum += second - first * first / weight;
    return sum;
  }
};

} // namespace

TEST_CASE("corun_evidence: no factors within the bounds leave a smaller sum of squares") {
  std::mt19937_64 random(71);
  const auto any = [&](double least, double most) {
    return least + (most - least) * static_cast<double>(random() % 10000) / 1e4;
  };
  int at_bounds = 0, inside = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const corun_errors errors{any(0.1, 3), any(0.05, 0.5), any(0.01, 0.1), any(0.02, 0.2)};
    equations all{1 + random() % 4};
    detail::corun_evidence evidence(all.models);
    std::vector<double> truth;
    for (std::size_t f = 0; f < 2 * all.models; ++f) truth.push_back(any(-1, 1));
    if (i % 3 == 0) truth[random() % truth.size()] = i % 2 == 0 ? 6 : -6; // beyond the bounds
    for (int n = 0; n < 200; ++n) {
      const std::size_t m = random() % all.models;
      equation q{any(-0.1, 0.1), std::vector<double>(all.models + 1)};
      for (double& s : q.slopes) s = random() % 3 == 0 ? 0 : -any(0, 0.3);
      q.miss -= q.slopes[0] * truth[2 * m];
      for (std::size_t k = 0; k < all.models; ++k) q.miss -= q.slopes[k + 1] * truth[2 * k + 1];
      const std::uint32_t batch = 1u << random() % 3;
      const sm_count sms{random() % 2 == 0 ? 8u : 16u};
      evidence.add(m, batch, sms, q.miss, q.slopes);
      all.cells[{m, batch, sms}].push_back(q);
    }
    std::vector<double> found, noise;
    for (const learned_factors& f : evidence.solve(errors)) {
      found.push_back(std::log(f.factors.sensitivity));
      found.push_back(std::log(f.factors.pressure));
      noise.push_back(f.noise);
    }
    const double least = all.squares(found, errors, noise);
    for (std::size_t f = 0; f < found.size(); ++f)
      for (const double by : {-0.05, -0.002, 0.002, 0.05}) {
        CAPTURE(f);
        CAPTURE(by);
        std::vector<double> other = found;
        other[f] += by;
        if (other[f] < std::log(corun_factors::least) || other[f] > std::log(corun_factors::most)) {
          ++at_bounds;
          continue;
        }
        ++inside;
        REQUIRE(all.squares(other, errors, noise) >= least * (1 - 1e-9));
      }
  }
  CHECK(at_bounds > 10);
  CHECK(inside > 500);
}

TEST_CASE("corun_evidence: the errors of the factors fit the standard deviations that it gives") {
  std::mt19937_64 random(5);
  const corun_errors errors{0.5, 0.3, 0.03, 0.1};
  int near = 0, far = 0, all = 0;
  double worst_noise = 0, known = 1;
  for (int i = 0; i < 150; ++i) {
    constexpr std::size_t models = 2;
    const std::array<double, models> noises{0.1, 0.4};
    const std::size_t count = i % 3 == 0 ? 60 : 600;
    std::normal_distribution<double> of_factor(0, errors.factor), of_table(0, errors.table),
        of_cell(0, errors.cell), of_noise(0, 1);
    std::vector<double> truth;
    for (std::size_t f = 0; f < 2 * models; ++f)
      truth.push_back(std::clamp(of_factor(random), -1.2, 1.2));
    std::array<double, models> table{of_table(random), of_table(random)};
    std::map<std::pair<std::size_t, std::uint32_t>, double> cell;
    detail::corun_evidence evidence(models);
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t m = random() % models;
      const std::uint32_t batch = 1u << random() % 2;
      const auto [own, is_new] = cell.try_emplace({m, batch}, 0.0);
      if (is_new) own->second = of_cell(random);
      std::vector<double> slopes(models + 1);
      for (double& s : slopes)
        s = random() % 3 == 0 ? 0 : -0.2 * static_cast<double>(random() % 1000) / 1e3;
      double miss = table[m] + own->second + noises[m] * of_noise(random);
      miss -= slopes[0] * truth[2 * m];
      for (std::size_t k = 0; k < models; ++k) miss -= slopes[k + 1] * truth[2 * k + 1];
      evidence.add(m, batch, sm_count{8}, miss, slopes);
    }
    const std::vector<learned_factors> found = evidence.solve(errors);
    for (std::size_t m = 0; m < models; ++m) {
      const learned_factors& f = found[m];
      const double off[]{std::log(f.factors.sensitivity) - truth[2 * m],
                         std::log(f.factors.pressure) - truth[2 * m + 1]};
      const double said[]{f.errors.sensitivity, f.errors.pressure};
      for (int k = 0; k < 2; ++k) {
        CHECK(said[k] <= errors.factor * (1 + 1e-9));
        known = std::min(known, said[k]);
        ++all;
        near += std::abs(off[k]) < said[k];
        far += std::abs(off[k]) > 2 * said[k];
      }
      if (count > 100) worst_noise = std::max(worst_noise, std::abs(f.noise / noises[m] - 1));
    }
  }
  const auto part = [&](int n) { return static_cast<double>(n) / all; };
  CHECK(part(near) == doctest::Approx(0.68).epsilon(0.1)); // of a normal distribution
  CHECK(part(far) < 0.08);
  CHECK(known < 0.2);
  CHECK(worst_noise < 0.2);
}

} // namespace gsched::testing
