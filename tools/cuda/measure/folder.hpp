// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/options.hpp"

#include <gsched/io/machine_json.hpp>

namespace measure {

/// Makes the folder, and removes what earlier runs wrote into it where the options ask for that.
/// Otherwise refuses a folder with measurements of another machine. Writes machine.json.
/// Errors   bad_option, one line with what differs; run_error (io).
void open_folder(const options& o, gsched::machine here);

} // namespace measure
