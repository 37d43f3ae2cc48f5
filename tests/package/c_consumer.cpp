// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched_c.h>

#include <cstdio>

int main() {
  std::printf("ABI %u of %s\n", gsched_abi(), gsched_version());
  return gsched_abi() == GSCHED_ABI ? 0 : 1;
}
