// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// One measurement: the latency of a batch of a model, alone on that many SMs.
struct latency_row {
  std::string model{};
  std::uint32_t batch = 1;
  sm_count sms{};
  duration latency{};
};

/// Measured latencies L(b, p): how long a batch of b requests of a model takes on p SMs.
///
/// Latencies fall with SMs and rise with the batch, so a planner can search them. Noise breaks that
/// in measurements: where more SMs or a smaller batch measured slower, the table raises the faster
/// entry, and it never lowers one. `raised` returns the largest correction. Between two sizes the
/// table interpolates a + c/p; between two batches it interpolates linearly. It does not
/// extrapolate.
///
/// Source   Choi et al., USENIX ATC 2022, table 2 and section 4.3.
/// Order    models in the order of their first row.
/// Units    SMs; the paper has percentages of a GPU.
/// Errors   the constructor: bad_profile, one line that names the model: no rows; a batch or size
///          of 0; a latency that is not above 0; two rows for one batch and size; a missing row for
///          a batch and size of the model.
/// Cost     latency O(log rows).
/// Threads  immutable.
class latency_table {
public:
  static constexpr double doubtful = 0.05; ///< a larger correction is more than noise

  /// `name` is the start of each error line.
  explicit latency_table(std::span<const latency_row> rows,
                         std::string_view name = "latency table") {
    if (rows.empty()) throw error(errc::bad_profile, std::string(name) + ": no rows, expected one");
    std::vector<std::vector<latency_row>> of; // by model
    for (const latency_row& r : rows) {
      if (r.batch == 0 || r.sms.count() == 0) refuse(name, r, "expected at least 1 of both");
      if (r.latency <= duration::zero())
        refuse(name, r, std::to_string(r.latency.count()) + " ns, expected more than 0");
      const std::size_t m = find(r.model).value_or(models_.size());
      if (m == models_.size()) {
        models_.push_back({r.model, {}, {}, {}, 0, {}});
        of.emplace_back();
      }
      of[m].push_back(r);
    }
    for (std::size_t m = 0; m < models_.size(); ++m) {
      fill(models_[m], of[m], name);
      raise(models_[m]);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return models_.size(); }
  [[nodiscard]] const std::string& name(std::size_t m) const noexcept { return models_[m].name; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept {
    for (std::size_t m = 0; m < models_.size(); ++m)
      if (models_[m].name == name) return m;
    return std::nullopt;
  }
  /// The measured batches of a model, rising.
  [[nodiscard]] std::span<const std::uint32_t> batches(std::size_t m) const noexcept {
    return models_[m].batches;
  }
  /// The measured SM counts of a model, rising.
  [[nodiscard]] std::span<const sm_count> sizes(std::size_t m) const noexcept {
    return models_[m].sizes;
  }

  /// The latency of a batch, which is at most the largest measured, on at least the fewest SMs
  /// measured. A batch below the smallest measured takes as long as that one. SMs beyond the most
  /// measured do not help.
  [[nodiscard]] duration latency(std::size_t m, std::uint32_t batch, sm_count sms) const noexcept {
    const model& of = models_[m];
    assert(batch <= of.batches.back() && sms >= of.sizes.front());
    const auto above = std::upper_bound(of.batches.begin(), of.batches.end(), batch);
    if (above == of.batches.begin()) return rounded(on(of, 0, sms));
    const auto i = static_cast<std::size_t>(above - of.batches.begin()) - 1;
    const double low = on(of, i, sms);
    if (above == of.batches.end() || of.batches[i] == batch) return rounded(low);
    const double part = (batch - of.batches[i]) / static_cast<double>(*above - of.batches[i]);
    return rounded(low + (on(of, i + 1, sms) - low) * part);
  }

  /// The largest relative correction of a row of the model.
  [[nodiscard]] double raised(std::size_t m) const noexcept { return models_[m].raised; }
  /// One line for each model with a correction above `doubtful`.
  [[nodiscard]] std::vector<std::string> doubts() const {
    std::vector<std::string> lines;
    for (const model& m : models_)
      if (m.raised > doubtful)
        lines.push_back(m.name + ": batch " + std::to_string(m.doubt.batch) + " on " +
                        std::to_string(m.doubt.sms.count()) + " SMs is " +
                        std::to_string(std::llround(100 * std::min(m.raised, 1e15))) +
                        "% faster than a smaller batch or more SMs, expected slower");
    return lines;
  }

private:
  struct model {
    std::string name;
    std::vector<std::uint32_t> batches;
    std::vector<sm_count> sizes;
    std::vector<double> ns; ///< by batch, then size
    double raised = 0;
    latency_row doubt; ///< the row with the largest correction
  };

  [[nodiscard]] static duration rounded(double ns) noexcept {
    return duration{static_cast<duration::rep>(ns + 0.5)};
  }

  static void refuse(std::string_view name, const latency_row& r, const std::string& what) {
    throw error(errc::bad_profile, std::string(name) + ": " + r.model + ", batch " +
                                       std::to_string(r.batch) + " on " +
                                       std::to_string(r.sms.count()) + " SMs: " + what);
  }

  [[nodiscard]] static auto key_of(const latency_row& r) noexcept {
    return std::pair(r.batch, r.sms);
  }

  /// Fills a model's grid of batches and sizes.
  static void fill(model& m, std::vector<latency_row>& rows, std::string_view name) {
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i > 0 && key_of(rows[i - 1]) == key_of(rows[i]))
        refuse(name, rows[i], "there twice, expected once");
      if (i == 0 || rows[i].batch != rows[i - 1].batch) m.batches.push_back(rows[i].batch);
      m.sizes.push_back(rows[i].sms);
    }
    std::sort(m.sizes.begin(), m.sizes.end());
    m.sizes.erase(std::unique(m.sizes.begin(), m.sizes.end()), m.sizes.end());
    const std::size_t width = m.sizes.size();
    for (std::size_t i = 0; i < m.batches.size() * width; ++i) { // stops at the first missing row
      const std::pair here(m.batches[i / width], m.sizes[i % width]);
      if (i >= rows.size() || key_of(rows[i]) != here)
        refuse(name, {m.name, here.first, here.second, {}},
               "no row, expected one for each batch and size of the model");
      m.ns.push_back(static_cast<double>(rows[i].latency.count()));
    }
  }

  /// Makes latencies fall with the size and rise with the batch.
  static void raise(model& m) {
    const std::size_t width = m.sizes.size();
    for (std::size_t b = 0; b < m.batches.size(); ++b)
      for (std::size_t s = width; s-- > 0;) {
        double& ns = m.ns[b * width + s];
        double least = ns;
        if (b > 0) least = std::max(least, m.ns[(b - 1) * width + s]);
        if (s + 1 < width) least = std::max(least, m.ns[b * width + s + 1]);
        if (least / ns - 1 > m.raised) {
          m.raised = least / ns - 1;
          m.doubt = {m.name, m.batches[b], m.sizes[s], {}};
        }
        ns = least;
      }
  }

  /// The latency of a measured batch, by index, on any number of SMs; in nanoseconds.
  [[nodiscard]] static double on(const model& m, std::size_t batch, sm_count sms) noexcept {
    const double* const row = m.ns.data() + batch * m.sizes.size();
    const auto above = std::upper_bound(m.sizes.begin(), m.sizes.end(), sms);
    if (above == m.sizes.begin()) return row[0];
    const auto s = static_cast<std::size_t>(above - m.sizes.begin()) - 1;
    if (above == m.sizes.end() || m.sizes[s] == sms) return row[s];
    const double from = 1.0 / m.sizes[s].count();
    const double to = 1.0 / above->count();
    return row[s] + (row[s + 1] - row[s]) * (from - 1.0 / sms.count()) / (from - to);
  }

  std::vector<model> models_;
};

} // namespace gsched
