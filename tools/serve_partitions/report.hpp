// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"
#include "serve_partitions/run.hpp"

#include <functional>
#include <iosfwd>

namespace serve_partitions {

/// A line for each app and model and one for all, and the periods with too little room.
void print(std::ostream& out, const options& o, const served& all);
void write_json(std::ostream& out, const options& o, const served& all);

/// Serves, and writes the results to where the options say. Returns an exit code.
int serve_and_tell(options& o, const std::function<served(const options&)>& serve);

} // namespace serve_partitions
