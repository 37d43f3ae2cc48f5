/* SPDX-License-Identifier: Apache-2.0 */
#include <gsched/gsched_measure.h>

#include <stdio.h>

int main(void) {
  char measure[] = "measure", latency[] = "latency", out[] = "--out", folder[] = "none";
  char* words[] = {measure, latency, out, folder, NULL};
  printf("ABI %u\n", gsched_measure_abi());
  return gsched_measure_abi() == GSCHED_MEASURE_ABI ? gsched_measure_check_options(4, words) : 1;
}
