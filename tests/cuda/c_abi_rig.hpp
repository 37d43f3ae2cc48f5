// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/c_abi_fake.hpp"

#include "refusal.hpp"
#include "serve.hpp"
#include "server.hpp"
#include "settings.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {

inline constexpr std::int64_t second_us = 1'000'000;

/// An instance of a fake model: out = 3 in + 1, done by its last kernel.
struct fake_instance {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  fake_kernel last{[](void* self) {
                     auto& i = *static_cast<fake_instance*>(self);
                     i.out = 3 * i.in + 1;
                   },
                   this};
  program graph;

  fake_instance(std::size_t operations, duration each, std::uint32_t blocks = 16)
      : graph(make(operations, each, blocks)) {}

private:
  [[nodiscard]] program make(std::size_t operations, duration each, std::uint32_t blocks) const {
    operation op;
    op.launch.grid = {blocks, 1, 1};
    op.launch.block = {128, 1, 1};
    op.launch.registers_per_thread = 32;
    op.expected = each;
    op.kernel = kernel_id{0};
    std::vector<operation> all(operations, op);
    all.back().handle = static_cast<const cuda::action*>(&last);
    return program("fake", std::move(all));
  }
};

[[nodiscard]] inline gsched_server_options options_for(const char* policy) {
  gsched_server_options o = abi::default_options();
  o.policy = policy;
  o.watchdog_ms = 1;
  return o;
}

/// A server on a fake device.
struct server_rig {
  explicit server_rig(const char* policy = "srpt+deficit") : server_rig(options_for(policy)) {}
  explicit server_rig(const gsched_server_options& o) : server_rig(abi::settings_of(o)) {}
  explicit server_rig(const abi::settings& s)
      : how(s), it(
                    abi::serve(
                        how, [c = control] { return fake_device(c); },
                        [](fake_device&) { return fake_event::source(); }),
                    [this](const void*) {
                      if (as_looked) as_looked();
                      return abi::memory_kind::pageable;
                    },
                    [](void* stream) { return static_cast<fake_event*>(stream)->mark(); }) {}

  std::uint32_t add_model(std::uint32_t instances, std::size_t operations = 20,
                          duration each = from_us(5), std::vector<std::uint32_t> excludes = {},
                          bool exclusive = false) {
    return it.add_model(excludes, [&] {
      ++measured;
      if (as_measured) as_measured();
      auto m = std::make_unique<abi::model>("fake", std::vector<model_instance>());
      m->exclusive = exclusive;
      for (std::uint32_t i = 0; i < instances; ++i) {
        auto made = std::make_shared<fake_instance>(operations, each, blocks);
        last_made = made;
        m->instances.push_back({&made->graph, made});
        m->buffers.push_back({{{&made->in, 8, staging()}}, {{&made->out, 8}}});
        if (i % 2 == 0) m->buffers.back().outputs[0].staging = staging();
      }
      return m;
    });
  }

  [[nodiscard]] static std::shared_ptr<void> staging() {
    return std::make_shared<std::uint64_t>(0x5555555555555555u);
  }

  [[nodiscard]] gsched_ticket* submit(gsched_request r) {
    r.size = sizeof r;
    gsched_ticket* t = nullptr;
    it.submit(r, &t);
    return t;
  }
  [[nodiscard]] gsched_ticket* submit(std::uint32_t model, std::uint32_t client) {
    gsched_request r{};
    r.model = model;
    r.client = client;
    return submit(r);
  }

  std::shared_ptr<fake_control> control = std::make_shared<fake_control>();
  std::weak_ptr<fake_instance> last_made{}; ///< of the model added last
  std::atomic<int> measured{0};             ///< models whose graphs were read, with CUDA
  std::uint32_t blocks = 16;                ///< of the kernels of models that are added
  std::function<void()> as_measured{};      ///< called then
  std::function<void()> as_looked{};        ///< called when a submission asks for a pointer's kind
  abi::settings how;
  abi::server it;
};

/// The code with which f is refused; GSCHED_OK if it is not.
template <class F>
[[nodiscard]] gsched_code code_of(F f, std::string* line = nullptr) {
  try {
    f();
    return GSCHED_OK;
  } catch (...) {
    const abi::refusal r = abi::refusal_of_current_exception();
    if (line != nullptr) *line = r.what();
    CHECK(std::string(r.what()).find('\n') == std::string::npos);
    return r.code();
  }
}

/// Closes a server: the code, and the line where there is one.
[[nodiscard]] inline gsched_code close(abi::server& s, gsched_close_how how,
                                       std::int64_t timeout_us, std::string& why) {
  return code_of([&] { s.close(how, timeout_us); }, &why);
}

} // namespace gsched::testing
