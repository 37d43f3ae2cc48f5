// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/installed_driver.hpp>

#include <fstream>
#include <sstream>

namespace gsched::cuda {

std::string installed_driver() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string line; std::getline(in, line);) {
    if (line.find("NVRM version") == std::string::npos) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word.find('.') != std::string::npos &&
          word.find_first_not_of("0123456789.") == std::string::npos)
        return word;
  }
  return {};
}

std::string cuda_version(int v) {
  return std::to_string(v / 1000) + '.' + std::to_string(v % 1000 / 10);
}

} // namespace gsched::cuda
