// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"
#include "serve_partitions/run.hpp"

#include <functional>
#include <iosfwd>

namespace serve_partitions {

/// Each app and model, all together, and the periods in which there was too little room.
void print(std::ostream& out, const options& o, const served& all);
void write_json(std::ostream& out, const options& o, const served& all);

/// Serves, and tells all of it where the options say. An exit code.
int serve_and_tell(options& o, const std::function<served(const options&)>& serve);

} // namespace serve_partitions
