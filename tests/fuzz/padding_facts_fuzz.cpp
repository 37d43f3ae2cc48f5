// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "padding/facts.hpp"

#include <memory>
#include <vector>

/// Any bytes either are refused in one line, or are pairs whose times can be predicted or that no
/// proxy can run.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto on = gsched::sim::h200();
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<padding::pair_facts> pairs;
  try {
    pairs = padding::read_facts(std::move(text), "t", on);
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
    return 0;
  }
  constexpr std::uint32_t most_blocks = 20000; // of what is simulated
  if (pairs.size() > 8) return 0;
  for (const padding::pair_facts& p : pairs)
    if (p.real_time.variant.blocks > most_blocks || p.corunner.variant.blocks > most_blocks ||
        p.blocks.value_or(0) > most_blocks)
      return 0;
  try {
    gsched::pad_options how;
    how.sms = on.sms;
    gsched::fuzz::require(padding::predict_pairs(pairs, how, on).size() == pairs.size());
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "");
  }
  return 0;
}
