// SPDX-License-Identifier: Apache-2.0
//
// The loop of realtime, on a device that keeps the end of a segment to itself.
#include "realtime/serve.hpp"

#include <gsched/device/null_device.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

/// Never reports that its first segment has ended.
struct forgetful_device : null_device {
  using null_device::null_device;
  std::size_t poll(std::span<device_event> out) noexcept {
    const std::size_t n = null_device::poll(out);
    if (n == 0 || std::exchange(forgot, true)) return n;
    std::move(out.begin() + 1, out.begin() + static_cast<std::ptrdiff_t>(n), out.begin());
    return n - 1;
  }
  bool forgot = false;
};

struct counts_failures : silent_listener {
  std::size_t failures = 0;
  void on_failure(const job&, std::exception_ptr, time_point) noexcept { ++failures; }
};

struct one_request {
  bool made = false;
  [[nodiscard]] std::optional<realtime::sources::next_request> next() const {
    return made ? std::nullopt : std::optional(realtime::sources::next_request{});
  }
  [[nodiscard]] static time_point until(const std::optional<realtime::sources::next_request>& n) {
    return n ? n->at : no_deadline;
  }
  static void show_progress() {}
};

} // namespace

TEST_CASE("realtime: a segment that the device never reports fails its request") {
  dispatch_options how;
  how.lanes = 1;
  how.segment_limit = from_us(10000);
  how.limit_factor = 1;
  forgetful_device device({limits_for(9, 0), sm_count{132}, 1}, from_us(50));
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  priority<fifo, fifo> order;
  counts_failures hears;
  dispatcher to(device, order, account, hears, how);
  operation op;
  op.launch.grid = {132, 1, 1};
  op.launch.block = {128, 1, 1};
  op.expected = from_us(10);
  program p("p", std::vector<operation>(4, op));
  to.load(p);
  std::function<task(job_context&)> body = [&](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  job_request r;
  r.model = to.add_model("p", body, &p);
  r.owner = &to.add_client();
  one_request books;
  realtime::drive(to, device, books, [&](const realtime::sources::next_request&) {
    books.made = true;
    static_cast<void>(to.submit(r));
  });
  CHECK(device.forgot);
  CHECK(to.statistics().lost_segments == 1);
  CHECK(to.statistics().failed == 1);
  CHECK(hears.failures == 1);
  CHECK(device.now() < time_point{2 * how.segment_limit}); // the device would wait for ever
}
