// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/service.hpp"
#include "gsched_server/settings/settings.hpp"
#include "gsched_server/test_device.hpp"
#include "gsched_server/test_settings.hpp"

#include <gsched/channel/client.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using gsched_server::answer;
using gsched_server::outcome;

namespace {

/// A service on two devices that are held.
struct two_devices {
  explicit two_devices(const std::string& more = "")
      : how(settings_of(R"({"device": ["sim", "sim"],
            "models": {"lenet_b1": {}, "first": {"profile": "lenet_b1", "devices": [0]},
                       "second": {"profile": "lenet_b1", "devices": [1]}})" +
                        more + "}")),
        to(how, devices.make()) {
    devices.hold(true);
  }
  ~two_devices() { devices.hold(false); }

  void send(const std::string& model = "lenet_b1", const std::string& tenant = "") {
    gsched_server::service_request what;
    what.model = to.find(model);
    what.with.tenant = tenant;
    static_cast<void>(to.infer(
        std::move(what), [this](const answer& a) { ++ends[static_cast<std::size_t>(a.what)]; }));
  }
  void serve() {
    devices.hold(false);
    CHECK(to.wait_idle(20s));
    devices.hold(true);
  }
  /// Requests for the model alone, as the device has queued them.
  [[nodiscard]] auto queued(std::size_t device) {
    return to.devices()[device]->queued.was() / to.find("lenet_b1")->alone;
  }
  [[nodiscard]] int ended(outcome how_many) {
    return ends[static_cast<std::size_t>(how_many)].load();
  }

  gsched_server::settings how;
  controlled_devices devices{2};
  std::array<std::atomic<int>, gsched_server::outcome_names.size()> ends{};
  gsched_server::service to;
};

} // namespace

TEST_CASE("a request goes to the device with the least queued time") {
  two_devices on;
  for (int i = 0; i < 5; ++i) on.send();
  CHECK(on.queued(0) == 3); // of equal ones the first
  CHECK(on.queued(1) == 2);
  for (int i = 0; i < 3; ++i) on.send("second"); // where its model is
  CHECK(on.queued(1) == 5);
  on.send();
  on.send();
  CHECK(on.queued(0) == 5);
  on.send("first");
  on.serve();
  CHECK(on.ended(outcome::ok) == 11);
  CHECK(on.to.devices()[0]->queued.was() == 0ns);
  CHECK(on.to.devices()[1]->queued.was() == 0ns);
}

TEST_CASE("requests that several threads place at once are shared out evenly") {
  two_devices on;
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < 50; ++i) on.send();
    });
  for (std::thread& t : all) t.join();
  CHECK(on.queued(0) == 100);
  CHECK(on.queued(1) == 100);
  on.serve();
  CHECK(on.ended(outcome::ok) == 200);
}

TEST_CASE("limits of a tenant count over all devices") {
  two_devices on(R"(, "tenants": {"small": {"requests": 3}})");
  for (int i = 0; i < 4; ++i) on.send("lenet_b1", "small");
  CHECK(on.ended(outcome::exhausted) == 1);
  CHECK(on.queued(0) + on.queued(1) == 3);
  on.serve();
  CHECK(on.ended(outcome::ok) == 3);
}

TEST_CASE("what is on a device that fails ends as unavailable, and others serve what comes") {
  two_devices on;
  for (int i = 0; i < 6; ++i) on.send();
  on.devices[0].broken = true;
  on.serve();
  CHECK(on.ended(outcome::unavailable) == 3);
  CHECK(on.ended(outcome::ok) == 3);
  CHECK(on.to.ready());
  CHECK(on.to.metrics().find("\ngsched_device_ready{device=\"0\"} 0\n") != std::string::npos);
  CHECK(on.to.metrics().find("\ngsched_device_ready{device=\"1\"} 1\n") != std::string::npos);
  for (int i = 0; i < 5; ++i) on.send();
  CHECK(on.queued(0) == 0);
  CHECK(on.queued(1) == 5);
  on.serve();
  CHECK(on.ended(outcome::ok) == 8);
  on.send("first"); // of no other device
  CHECK(on.ended(outcome::unavailable) == 4);

  gsched_server::settings changed = on.how; // it gets no more models
  changed.models[1].instances = 2;          // lenet_b1
  changed.tenants["another"] = {};
  on.to.reload(changed);
  CHECK(on.to.find("lenet_b1")->places.size() == 1);
  on.send("lenet_b1", "another");
  on.serve();
  CHECK(on.ended(outcome::ok) == 9);

  on.devices[1].broken = true;
  on.send();
  on.serve();
  CHECK(on.ended(outcome::unavailable) == 5);
  CHECK(!on.to.ready());
  on.send();
  CHECK(on.ended(outcome::unavailable) == 6);
}

TEST_CASE("clients of the channel have a socket for each device, and count while they run") {
  const std::string socket = "/tmp/gsched_placement_test." + std::to_string(::getpid()) + ".sock";
  two_devices on(R"(, "socket": ")" + socket + "\"");
  gsched::channel::client c(socket + ".1");
  const auto m = c.model("lenet_b1");
  const std::span<std::byte> io = c.allocate(m.payload_bytes());
  CHECK(c.model("second").id != m.id);
  CHECK_THROWS(static_cast<void>(c.model("first"))); // it is not there
  c.predict(m, io);
  for (int i = 0; i < 2000 && on.queued(1) == 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(on.queued(1) == 1);
  for (int i = 0; i < 3; ++i) on.send();
  CHECK(on.queued(0) == 2);
  CHECK(on.queued(1) == 2);
  on.devices.hold(false);
  CHECK(c.read_result().how == gsched::channel::outcome::finished);
  CHECK(on.to.wait_idle(20s));
  CHECK(on.to.metrics().find("\ngsched_channel_clients{device=\"1\"} 1\n") != std::string::npos);
}
