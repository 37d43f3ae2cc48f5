// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/solo_metrics.hpp>

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace common {

/// Gives a row other factors or other losses.
using row_change = std::function<void(gsched::solo_metrics& row)>;

/// Writes the rows of a file of solo metrics as they are, but with changed factors and losses in
/// the columns sensitivity, pressure, l2_loss, start_loss_us and mean_pressure. A loss that is not
/// known is "-".
/// Errors   those of csv_table and of read_solo_metrics.
void write_factors(std::ostream& out, const std::filesystem::path& solo, const row_change& change);

} // namespace common
