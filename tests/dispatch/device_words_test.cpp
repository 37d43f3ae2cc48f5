// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>

using namespace gsched;

namespace {

/// A device on which everything fails, and which may report a reason.
struct failing_device : null_device {
  using null_device::null_device;
  std::size_t poll(std::span<device_event> out) noexcept {
    const std::size_t n = null_device::poll(out);
    for (device_event& e : out.first(n)) e.what = device_event::kind::segment_failed;
    return n;
  }
};
struct telling_device : failing_device {
  using failing_device::failing_device;
  const std::optional<std::string>& failure() const noexcept { return words; }
  std::optional<std::string> words;
};

struct words_listener : silent_listener {
  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    try {
      std::rethrow_exception(why);
    } catch (const std::system_error& e) {
      heard = e.what();
      code = e.code();
    }
  }
  std::string heard;
  std::error_code code;
};

template <class Device>
words_listener run_on(Device& device) {
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  fifo order;
  words_listener hears;
  dispatch_options o;
  o.lanes = 1;
  const test::shared_dispatcher made(device, order, account, hears, o);
  test::any_dispatcher& d = *made;
  operation op;
  op.expected = from_us(10);
  auto body = [op](job_context& ctx) -> task {
    ctx.launch(op);
    co_await ctx.synchronize();
  };
  job_request q;
  q.model = d.add_model("m", body);
  q.owner = &d.add_client();
  static_cast<void>(d.submit(q));
  while (!d.idle())
    if (!d.step()) device.wait(no_deadline);
  CHECK(d.statistics().failed == 1);
  return hears;
}

} // namespace

TEST_CASE("a job that the device failed is told the device's own words") {
  const device_limits limits{limits_for(9, 0), sm_count{132}, 2};
  // On the heap: g++ 12 with sanitizers warns that the string of an empty optional is read.
  const auto on_heap = std::make_unique<telling_device>(limits);
  telling_device& telling = *on_heap;
  telling.words = "GPU 0: an illegal memory access; running: p operations 0 to 3";
  words_listener l = run_on(telling);
  CHECK(l.heard == *telling.words);
  CHECK(l.code == errc::device_failed);

  telling.words.reset(); // it works, but refused this segment
  l = run_on(telling);
  CHECK(l.heard == "device failed");
  CHECK(l.code == errc::device_failed);

  failing_device silent(limits);
  CHECK(run_on(silent).heard == "device failed");
}
