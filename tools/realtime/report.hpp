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

/// For people: one line a mode, the best value of each column marked; then the clients. Bold on a
/// terminal.
void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal);

} // namespace realtime
