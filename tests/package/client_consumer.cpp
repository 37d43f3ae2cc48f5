// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched_client.h>

#include <cstdio>

int main() {
  std::printf("ABI %u of %s\n", gsched_client_abi(), gsched_client_version());
  return gsched_client_abi() == GSCHED_CLIENT_ABI ? 0 : 1;
}
