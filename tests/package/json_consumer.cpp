// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/profile_json.hpp>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const gsched::profile model = gsched::load_profile(std::filesystem::path(arguments[1]));
  std::cout << model.model << ": " << model.operations.size() << " operations\n";
  return model.operations.empty() ? 1 : 0;
}
