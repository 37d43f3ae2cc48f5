// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace serve_mix {

/// What only this program's command line says, as common/values.hpp.

/// `NAME[=WEIGHT],...` against the profiles in `words`: directories and files. An empty mix is the
/// default one, or all of the files if files are named.
[[nodiscard]] std::vector<mix_entry> to_mix(const std::string& mix,
                                            const std::vector<std::string>& words);

/// `W,...`, at most one for each client.
[[nodiscard]] std::vector<double> to_weights(const std::string& words, std::uint32_t clients);
[[nodiscard]] std::optional<slo_rule> to_slo(const std::string& word);
[[nodiscard]] arrival_options to_arrivals(const std::string& word);
[[nodiscard]] std::vector<std::string> to_policies(const std::string& words);

} // namespace serve_mix
