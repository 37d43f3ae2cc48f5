// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/server/detail/ownership.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/served_partition.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>

namespace gsched::detail {

/// A batch_runner whose driver may hang: each of its calls that may enter the driver lends the
/// ownership of the requests.
template <batch_runner Runner>
class interruptible_batches {
public:
  interruptible_batches(Runner& on, ownership& whose) noexcept : on_(on), whose_(whose) {}

  void prepare(plan_chooser choose) {
    guarded([&] { on_.prepare(std::move(choose)); });
  }
  [[nodiscard]] bool try_prepared() {
    bool is = false;
    guarded([&] { is = on_.try_prepared(); });
    return is;
  }
  void activate(std::span<const served_partition> partitions) {
    guarded([&] { on_.activate(partitions); });
  }
  [[nodiscard]] bool is_available(std::uint32_t partition) const {
    return on_.is_available(partition);
  }
  void begin(const batch_run& r) {
    guarded([&] { on_.begin(r); });
  }
  [[nodiscard]] std::optional<std::uint32_t> try_end() {
    std::optional<std::uint32_t> ended;
    guarded([&] { ended = on_.try_end(); });
    return ended;
  }
  void wait(time_point t) {
    guarded([&] { on_.wait(t); });
  }
  [[nodiscard]] time_point now() const { return on_.now(); }
  [[nodiscard]] duration least_time_of_last(std::uint32_t partition) const {
    return on_.least_time_of_last(partition);
  }

private:
  /// Rethrows what the call throws, once the ownership is back.
  template <class F>
  void guarded(F call) {
    std::exception_ptr thrown;
    whose_.lend([&]() noexcept {
      try {
        call();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }

  Runner& on_;
  ownership& whose_;
};

} // namespace gsched::detail
