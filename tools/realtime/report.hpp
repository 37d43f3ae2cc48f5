// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"
#include "realtime/result.hpp"

#include <iosfwd>
#include <span>

namespace realtime {

/// Errors   none; look at the stream.
void write_json(std::ostream& out, const options& from, const workload_facts& facts,
                std::span<const run_result> runs);

/// A table with a line for each mode, and one of the clients; the best value of each column is
/// marked, and bold on a terminal.
void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal);

} // namespace realtime
