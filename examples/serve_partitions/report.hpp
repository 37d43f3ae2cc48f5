// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"
#include "serve_partitions/run.hpp"

#include <iosfwd>

namespace serve_partitions {

/// Each app and model, all together, and the periods in which there was too little room.
void print(std::ostream& out, const options& o, const served& all);
void write_json(std::ostream& out, const options& o, const served& all);

} // namespace serve_partitions
