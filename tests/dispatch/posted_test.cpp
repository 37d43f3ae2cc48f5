// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

using namespace gsched;

TEST_CASE("dispatcher: requests and cancellations posted by many threads are all taken up") {
  constexpr int senders = 4;
  constexpr int each = 300;
  rig<srpt> r;
  program& p = r.make_program("p", 30, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_await ctx.synchronize();
    ctx.launch(p);
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  std::vector<client*> clients;
  for (int i = 0; i < senders; ++i) clients.push_back(&r.dispatch.add_client());

  struct sent : posted_request {
    std::atomic<bool> done{false};
  };
  const auto taken = [](posted_request& q) noexcept {
    static_cast<sent&>(q).done.store(true, std::memory_order_release);
  };
  std::atomic<int> sending{senders};
  std::vector<std::deque<sent>> all(senders);
  std::vector<std::thread> threads;
  for (int s = 0; s < senders; ++s) {
    threads.emplace_back([&, s] {
      std::deque<sent>& mine = all[static_cast<std::size_t>(s)];
      for (int i = 0; i < each; ++i) {
        sent& q = mine.emplace_back();
        q.request.model = m;
        q.request.owner = clients[static_cast<std::size_t>(s)];
        q.taken = taken;
        r.dispatch.post(q);
        if (i % 3 != 0) continue;
        while (!q.done.load(std::memory_order_acquire)) std::this_thread::yield();
        sent& c = mine.emplace_back();
        c.what = posted_request::kind::cancel;
        c.id = q.id; // known once it was taken
        c.taken = taken;
        r.dispatch.post(c);
      }
      sending.fetch_sub(1, std::memory_order_release);
    });
  }
  // The device's time stands still meanwhile, so each cancellation finds its job active.
  while (sending.load(std::memory_order_acquire) > 0)
    if (!r.dispatch.step()) std::this_thread::yield();
  for (std::thread& t : threads) t.join();
  while (r.dispatch.step() || !r.dispatch.idle())
    if (!r.dispatch.nothing_in_flight()) r.device.wait(no_deadline);
  const dispatch_statistics& s = r.dispatch.statistics();
  CHECK(s.submitted == senders * each);
  CHECK(s.finished + s.cancelled == senders * each);
  CHECK(s.cancelled == senders * each / 3);
  CHECK(s.active == 0);
  for (const auto& mine : all)
    for (const sent& q : mine) CHECK(q.done.load());
}
