// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/interference/corun_pairs.hpp>
#include <gsched/io/corun_csv.hpp>

#include <cmath>
#include <memory>

/// Any bytes either are refused in one line, or are pairs with SMs that can be and slow-downs that
/// are numbers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  try {
    for (const corun_pair& p :
         read_corun_pairs(csv_table(std::move(text), "t", corun_columns()), sm_count{132}))
      for (const corun_side& s : p.side) {
        fuzz::require(s.sms.count() <= 132 && s.batch > 0 && !s.model.empty());
        fuzz::require(std::isfinite(s.slowdown()) && s.slowdown() > 0);
      }
  } catch (const error& e) {
    fuzz::require_one_line(e, "t:");
  }
  return 0;
}
