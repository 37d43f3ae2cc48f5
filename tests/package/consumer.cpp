// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched.hpp>

int main() {
  gsched::client tenant;
  gsched::job waiting;
  waiting.owner = &tenant;
  gsched::fifo order;
  order.enqueue(waiting, gsched::time_point{});
  return order.try_pick(gsched::time_point{}) == &waiting && order.size() == 0 ? 0 : 1;
}
