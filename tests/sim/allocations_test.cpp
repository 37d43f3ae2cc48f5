// SPDX-License-Identifier: Apache-2.0
// Counts this program's allocations as well.
#include <job/allocations_test.cpp> // NOLINT(bugprone-suspicious-include)
