// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serving/batch_runner_conformance.hpp"

#include <gsched/serving/batch_runner.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace gsched::testing {

/// What model 0 of batch_data_conformance computes, for each request: of inputs a and b, of
/// `length` numbers each, the outputs a + 3 b and a - b.
struct pair_of_sums {
  static constexpr std::size_t length = 5;
  static constexpr std::size_t bytes = length * sizeof(std::uint32_t);

  static std::uint32_t sum(std::uint32_t a, std::uint32_t b) noexcept { return a + 3 * b; }
  static std::uint32_t difference(std::uint32_t a, std::uint32_t b) noexcept { return a - b; }
};

/// Clause B6 of batch_runner, on the GPU of batch_runner_conformance, with pair_of_sums as model 0
/// in batches of up to 8. `memory(kind)` gives memory of pair_of_sums::bytes that lives until the
/// end, of one of `kinds` kinds; `write` and `read` copy between it and the host.
template <class Runner>
struct batch_data_conformance {
  Runner& runner;
  std::size_t kinds = 1;
  std::function<std::byte*(std::size_t kind)> memory{};
  std::function<void(std::byte*, const std::byte*)> write =
      [](std::byte* to, const std::byte* from) { std::memcpy(to, from, pair_of_sums::bytes); };
  std::function<void(std::byte*, const std::byte*)> read = write;

  using row = std::vector<std::uint32_t>;
  struct request {
    row a, b;
    std::byte *in_a = nullptr, *in_b = nullptr, *sum = nullptr, *difference = nullptr;
  };
  struct batch {
    std::vector<request> of;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  batch_runner_conformance<Runner> on{runner};
  std::mt19937 random{7};
  std::map<std::uint32_t, batch> running{};
  std::uint64_t answered = 0, unread = 0;

  static const std::byte* bytes_of(const row& r) {
    return reinterpret_cast<const std::byte*>(r.data());
  }
  [[nodiscard]] row draw() {
    row r(pair_of_sums::length);
    for (std::uint32_t& x : r) x = static_cast<std::uint32_t>(random());
    return r;
  }
  [[nodiscard]] std::byte* place(const row& r) {
    std::byte* const at = memory(random() % kinds);
    write(at, bytes_of(r));
    return at;
  }

  void begin(std::uint32_t partition, std::uint32_t size) {
    batch& b = running[partition] = {};
    for (std::uint32_t i = 0; i < size; ++i) {
      request& r = b.of.emplace_back();
      r.a = draw();
      r.b = draw();
      r.in_a = place(r.a);
      r.in_b = place(r.b);
      r.sum = place(row(pair_of_sums::length, 0xdead));
      if (random() % 4 != 0) r.difference = place(row(pair_of_sums::length, 0xdead));
      b.inputs.insert(b.inputs.end(), {r.in_a, r.in_b});
      b.outputs.insert(b.outputs.end(), {r.sum, r.difference});
    }
    const served_partition& p = on.partitions[partition];
    on.partitions[partition].running.resize(size);
    ++on.begun;
    on.launch({0, partition, p.sms, 0, size, {b.inputs, b.outputs}});
  }

  void end(std::uint32_t partition) {
    const auto at = running.find(partition);
    REQUIRE(at != running.end());
    for (const request& r : at->second.of) {
      row sum(pair_of_sums::length), difference(pair_of_sums::length);
      read(reinterpret_cast<std::byte*>(sum.data()), r.sum);
      if (r.difference != nullptr)
        read(reinterpret_cast<std::byte*>(difference.data()), r.difference);
      else
        ++unread;
      for (std::size_t i = 0; i < pair_of_sums::length; ++i) {
        REQUIRE(sum[i] == pair_of_sums::sum(r.a[i], r.b[i]));
        REQUIRE(difference[i] ==
                (r.difference != nullptr ? pair_of_sums::difference(r.a[i], r.b[i]) : 0));
      }
      ++answered;
    }
    running.erase(at);
  }

  void run(int rounds = 40) {
    INFO("B6: each output is that of its request's own inputs");
    const std::vector<std::vector<std::uint32_t>> plans{{16, 8, 8}, {32}, {8, 24}};
    on.switch_to(plans[0]);
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t i = 0; i < on.partitions.size(); ++i)
        if (on.partitions[i].planned && on.partitions[i].is_idle() && runner.is_available(i))
          begin(i, 1 + static_cast<std::uint32_t>(random() % 8));
      if (random() % 4 == 0) {
        on.switch_to(plans[random() % plans.size()]);
        for (const std::uint32_t p : std::exchange(on.reported, {})) end(p);
      }
      if (on.ended < on.begun) end(on.wait_end());
    }
    while (on.ended < on.begun) end(on.wait_end());
    CHECK(running.empty());
    CHECK(answered > 100);
    CHECK(unread > 10);
    INFO("a batch may move no data");
    on.switch_to({32});
    for (std::uint32_t i = 0; i < on.partitions.size(); ++i)
      if (on.partitions[i].planned) {
        on.begin(i, 3);
        CHECK(on.wait_end() == i);
      }
  }
};

} // namespace gsched::testing
