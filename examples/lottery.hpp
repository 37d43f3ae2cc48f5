// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Lottery scheduling: each pick draws one of the clients with waiting jobs, with a probability
/// proportional to its weight, and takes its oldest job. Shows a policy with its own state of jobs
/// and of clients.
///
/// Source   Waldspurger & Weihl, OSDI 1994, "Lottery scheduling".
/// Cost     O(clients with waiting jobs) a pick, O(log n) of a client's n jobs.
class lottery {
public:
  static constexpr std::string_view name = "lottery";
  using order = gsched::job_order<&gsched::job::arrival>;

  struct per_client : gsched::known_client {
    [[nodiscard]] std::uint64_t tickets() const noexcept {
      return std::max<std::uint64_t>(1, static_cast<std::uint64_t>((*this)->weight * 65536));
    }
    order jobs{};
    gsched::list_hook hook{};
  };
  struct per_job : order::per_job {
    void bind(gsched::job& j, per_client& c) noexcept {
      order::per_job::bind(j, c);
      owner = &c;
    }
    per_client* owner = nullptr;
  };

  explicit lottery(std::uint64_t seed = 1) noexcept : state_(seed) {}
  lottery(lottery&&) = default; // before its first job
  /// Unlinks waiting jobs and their clients, which outlive the policy.
  ~lottery() {
    waiting_.clear_and_dispose([](per_client* c) { c->jobs.clear(); });
  }

  void enqueue(per_job& j, gsched::time_point) noexcept {
    if (j.owner->jobs.empty()) waiting_.push_back(*j.owner);
    j.owner->jobs.insert(j);
    ++size_;
  }
  [[nodiscard]] per_job* try_pick(gsched::time_point) noexcept {
    if (waiting_.empty()) return nullptr;
    std::uint64_t all = 0;
    for (const per_client& c : waiting_) all += c.tickets();
    std::uint64_t drawn = next() % all;
    auto winner = waiting_.begin();
    for (; drawn >= winner->tickets(); ++winner) drawn -= winner->tickets();
    auto* const picked = static_cast<per_job*>(winner->jobs.front());
    erase(*picked);
    return picked;
  }
  void erase(per_job& j) noexcept {
    j.owner->jobs.erase(j);
    if (j.owner->jobs.empty()) waiting_.erase(waiting_.iterator_to(*j.owner));
    --size_;
  }

  [[nodiscard]] bool wants_preempt(const per_job&, gsched::time_point) const noexcept {
    return false;
  }
  [[nodiscard]] gsched::duration slice(const per_job&) const noexcept {
    return gsched::run_to_completion;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  /// SplitMix64: equal seeds give equal numbers on every machine.
  std::uint64_t next() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  using hook = gsched::bi::member_hook<per_client, gsched::list_hook, &per_client::hook>;
  gsched::bi::list<per_client, hook> waiting_; ///< clients with waiting jobs
  std::size_t size_ = 0;
  std::uint64_t state_;
};

static_assert(gsched::policy<lottery>);
