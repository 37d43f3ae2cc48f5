// SPDX-License-Identifier: Apache-2.0
#include "common/report/save.hpp"

#include "common/cli/run_error.hpp"

#include <fstream>

namespace common {

void save(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write) {
  std::ofstream out(path, std::ios::binary);
  write(out);
  out.close();
  if (!out)
    throw run_error(gsched::errc::io,
                    path.string() + ": writing failed, expected room and a writable path");
}

} // namespace common
