// SPDX-License-Identifier: Apache-2.0
#include "plan/rates_csv.hpp"

#include "readers.hpp"

#include <algorithm>
#include <memory>

/// Any bytes either are refused in one line, or are rates of what is known by name, each once in a
/// scenario and each scenario once.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  const auto find = [](const std::string& name) {
    return name == "a"   ? std::optional<std::size_t>(0)
           : name == "b" ? std::optional<std::size_t>(1)
                         : std::nullopt;
  };
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const std::vector<plan::named_rates> all = plan::read_rates(
        csv_table(std::move(text), "t", plan::rate_columns(), plan::more_rate_columns()), find);
    fuzz::require(!all.empty());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& rates = all[i].rates;
      fuzz::require(!rates.empty() && rates.size() <= 2);
      fuzz::require(rates.size() == 1 || rates[0].first != rates[1].first);
      for (const auto& [model, rate] : rates) fuzz::require(model < 2 && rate >= 0 && rate <= 1e9);
      fuzz::require(std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                                 [&](const auto& a) { return a.name == all[i].name; }));
    }
  } catch (const error& e) {
    fuzz::require_one_line(e, "t:");
  }
  return 0;
}
