// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/session.hpp"

namespace measure {

/// Runs each kernel of each graph beside blocks on each SM that sleep or issue instructions
/// (waiting_probes), and writes its time, and whether it waited for these blocks to end, beside
/// what the occupancy calculator says: held_up.csv.
[[nodiscard]] part_report measure_held_up(session& s, double until);

} // namespace measure
