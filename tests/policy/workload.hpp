// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/job.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

namespace gsched::test {

/// Clients and jobs for a policy. Jobs get ids from zero; with address_opposes_id the lowest id has
/// the highest address, so an order by address shows.
class workload {
public:
  workload(std::size_t jobs, bool address_opposes_id, std::size_t clients = 1)
      : clients_(new client[clients]), jobs_(new job[jobs]), size_(jobs), client_count_(clients),
        opposed_(address_opposes_id) {
    for (std::size_t i = 0; i < clients; ++i)
      owner(i).id = client_id{static_cast<std::uint32_t>(i)};
    for (std::size_t i = 0; i < jobs; ++i) {
      (*this)[i].id = job_id{i};
      (*this)[i].owner = &owner(i % clients);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t clients() const noexcept { return client_count_; }
  [[nodiscard]] job& operator[](std::size_t id) noexcept {
    return jobs_[opposed_ ? size_ - 1 - id : id];
  }
  [[nodiscard]] client& owner(std::size_t id) noexcept {
    return clients_[opposed_ ? client_count_ - 1 - id : id];
  }

  /// All jobs in order of address.
  [[nodiscard]] std::vector<job*> by_address() {
    std::vector<job*> all;
    for (std::size_t i = 0; i < size_; ++i) all.push_back(&jobs_[i]);
    return all;
  }

private:
  std::unique_ptr<client[]> clients_;
  std::unique_ptr<job[]> jobs_;
  std::size_t size_;
  std::size_t client_count_;
  bool opposed_;
};

/// Facts from a narrow range, so that keys are often equal.
inline void draw_facts(job& j, std::mt19937_64& random, time_point now) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const duration unit{below(2) == 0 ? 1 : 700};
  j.service = below(2) == 0 ? service_class::real_time : service_class::best_effort;
  j.arrival = time_point{unit * below(6)};
  j.deadline = below(5) == 0 ? no_deadline : now + unit * below(40);
  j.total = unit * below(8);
  j.remaining = unit * below(8);
  j.head = below(9) == 0 ? duration{below(3) << 40} : unit * below(4);
}

template <class P>
std::vector<std::uint64_t> drain(P& p, time_point now = {}) {
  std::vector<std::uint64_t> ids;
  while (job* j = p.try_pick(now)) ids.push_back(index(j->id));
  return ids;
}

} // namespace gsched::test
