// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched.hpp>

int main() {
  gsched::client tenant;
  gsched::job waiting;
  waiting.owner = &tenant;
  gsched::known_client of;
  gsched::fifo::per_job entry;
  entry.bind(waiting, of);
  gsched::fifo order;
  order.enqueue(entry, gsched::time_point{});
  return order.try_pick(gsched::time_point{}) == &entry && order.size() == 0 ? 0 : 1;
}
