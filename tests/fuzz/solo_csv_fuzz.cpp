// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/io/solo_csv.hpp>

#include <cmath>
#include <memory>

/// Any bytes either are refused in one line, or are metrics of which rates and stand-ins can be
/// made.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const std::vector<solo_metrics> rows =
        read_solo_metrics(csv_table(std::move(text), "t", solo_columns(), more_solo_columns()));
    solo_table t;
    for (const solo_metrics& m : rows) t.add(m, "t");
    stand_in_law few;
    few.most_kernels = 500;
    for (const solo_metrics& m : rows) {
      for (const std::uint32_t batch : {m.batch, std::uint32_t{1}, ~std::uint32_t{0}}) {
        const mean_use b = t.rates(m.model, batch, m.solo).value();
        fuzz::require(b.l2 >= 0 && b.l2 <= 1 && b.dram >= 0 && b.dram <= 1);
        for (const double f : {b.factors.sensitivity, b.factors.pressure})
          fuzz::require(f >= corun_factors::least && f <= corun_factors::most);
      }
      fuzz::require(m.mean_pressure >= corun_factors::least &&
                    m.mean_pressure <= corun_factors::most);
      fuzz::require(!m.lost.known() || (*m.lost.part >= 0 && *m.lost.part <= l2_loss::most));
      fuzz::require(!m.at_start.known() ||
                    (*m.at_start.us >= 0 && *m.at_start.us <= start_loss::most));
      const kernel_chain c = stand_in_chain(m, sm_count{132}, {}, few);
      fuzz::require(std::abs(c.replay_us() / std::max(0.001, to_us(m.solo)) - 1) < 1e-6);
    }
  } catch (const error& e) {
    fuzz::require_one_line(e, "t:");
  }
  return 0;
}
