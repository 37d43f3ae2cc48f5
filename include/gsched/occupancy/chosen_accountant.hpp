// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

namespace gsched {

/// The unit in which an accountant counts.
enum class account_of : std::uint8_t {
  segments, ///< aggregate_accountant: for any kernels
  blocks    ///< per_sm_accountant: for instrumented kernels; others count by their widest kernel
};

/// One of the two accountants, selected at run time: for programs whose users decide whether
/// kernels are instrumented.
///
/// Cost     one branch a call more than the selected accountant.
/// Errors   the constructor: bad_option, as check().
/// Threads  one owner; no locking.
class chosen_accountant {
public:
  static constexpr bool wants_blocks = true; ///< aggregate_accountant ignores the reports

  chosen_accountant(const architecture_limits& l, sm_count sms, const accountant_options& o = {},
                    account_of what = account_of::segments)
      : in_use_(what == account_of::blocks
                    ? either(std::in_place_type<per_sm_accountant>, l, sms, o)
                    : either(std::in_place_type<aggregate_accountant>, l, sms, o)) {}

  [[nodiscard]] bool has_room() const noexcept {
    return ask<bool>([](const auto& a) { return a.has_room(); });
  }
  [[nodiscard]] bool admits(const footprint& f) const noexcept {
    return ask<bool>([&](const auto& a) { return a.admits(f); });
  }
  void charge(segment_id s, const footprint& f,
              std::optional<segment_id> behind = std::nullopt) noexcept {
    tell([&](auto& a) { a.charge(s, f, behind); });
  }
  void release(segment_id s) noexcept {
    tell([&](auto& a) { a.release(s); });
  }
  void started(segment_id s, std::uint32_t operation, const kernel_demand& k, std::uint32_t sm,
               std::uint32_t blocks) noexcept {
    tell([&](auto& a) { a.started(s, operation, k, sm, blocks); });
  }
  void ended(segment_id s, std::uint32_t operation, std::uint32_t sm,
             std::uint32_t blocks) noexcept {
    tell([&](auto& a) { a.ended(s, operation, sm, blocks); });
  }

  [[nodiscard]] double load() const noexcept {
    return ask<double>([](const auto& a) { return a.load(); });
  }
  [[nodiscard]] std::size_t slots() const noexcept {
    return ask<std::size_t>([](const auto& a) { return a.slots(); });
  }
  [[nodiscard]] std::size_t outstanding() const noexcept {
    return ask<std::size_t>([](const auto& a) { return a.outstanding(); });
  }
  [[nodiscard]] const accountant_violations& violations() const noexcept {
    if (const auto* a = std::get_if<per_sm_accountant>(&in_use_)) return a->violations();
    return std::get_if<aggregate_accountant>(&in_use_)->violations();
  }
  [[nodiscard]] account_of what() const noexcept {
    return std::holds_alternative<per_sm_accountant>(in_use_) ? account_of::blocks
                                                              : account_of::segments;
  }

private:
  using either = std::variant<aggregate_accountant, per_sm_accountant>;

  template <class R, class F>
  [[nodiscard]] R ask(F&& f) const noexcept {
    if (const auto* a = std::get_if<per_sm_accountant>(&in_use_)) return f(*a);
    return f(*std::get_if<aggregate_accountant>(&in_use_));
  }
  template <class F>
  void tell(F&& f) noexcept {
    if (auto* a = std::get_if<per_sm_accountant>(&in_use_)) return f(*a);
    f(*std::get_if<aggregate_accountant>(&in_use_));
  }

  either in_use_;
};

static_assert(accountant<chosen_accountant>);

} // namespace gsched
