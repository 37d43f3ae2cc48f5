// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/neighbour_rules.hpp"
#include "gsched_server/settings/settings.hpp"

#include <unistd.h>

#include <fstream>
#include <string>

/// What a configuration with this text makes of the profiles that ship.
/// Errors   as gsched_server::read_settings and neighbour_rules.
inline gsched_server::settings settings_of(const std::string& text) {
  const std::string file = "/tmp/gsched_settings_test." + std::to_string(::getpid()) + ".json";
  struct unlinked {
    const std::string& name;
    ~unlinked() { ::unlink(name.c_str()); }
  } const at_end{file};
  std::ofstream(file) << text;
  const std::string folder = std::string(GSCHED_SOURCE_DIR) + "/tools/data/profiles/";
  const char* const argv[] = {"test", "--config", file.c_str(), "--profiles", folder.c_str()};
  gsched_server::settings how = *gsched_server::read_settings(5, argv);
  how.apart = gsched_server::neighbour_rules(how);
  return how;
}
