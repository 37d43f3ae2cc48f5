// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/corun_factors.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

namespace common {

/// The factors of a model's row, from those that it has.
using factors_of_row = std::function<gsched::corun_factors(
    const std::string& model, std::uint32_t batch, const gsched::corun_factors& now)>;

/// Writes the rows of a file of solo metrics as they are, but with other factors in the columns
/// sensitivity and pressure.
/// Errors   those of csv_table and of read_solo_metrics.
void write_factors(std::ostream& out, const std::filesystem::path& solo,
                   const factors_of_row& factors);

} // namespace common
