// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

int main() { return gsched::job{}.deadline == gsched::no_deadline ? 0 : 1; }
