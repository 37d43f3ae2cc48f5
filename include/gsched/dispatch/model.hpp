// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/instances.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/estimate.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/program_footprint.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A kind of job, and what was learned of its kernels' counts and times.
struct model {
  model(std::string named, job_body does, std::uint32_t instance_count)
      : name(std::move(named)), body(does), instances(instance_count) {}

  std::string name;
  std::uint32_t number = 0; ///< its id
  job_body body;
  instance_pool instances;
  estimator estimate;
};

/// The kinds of job and the loaded programs of one dispatcher.
///
/// Cost     set-up allocates; asks and demand do not.
/// Threads  one owner; no locking.
class model_table {
public:
  explicit model_table(const device_limits& limits) : limits_(limits) {}

  /// After the device has given the program its id.
  void add_program(const program& p, program_footprint asks) {
    if (index(p.id()) >= programs_.size()) programs_.resize(index(p.id()) + std::size_t{1});
    programs_[index(p.id())] = std::move(asks);
  }

  [[nodiscard]] model_id add(std::string name, job_body body,
                             std::span<const program* const> priors, std::uint32_t instances) {
    model& m = models_.emplace_back(std::move(name), body, instances);
    for (const program* p : priors) m.estimate.add(*p);
    m.number = static_cast<std::uint32_t>(models_.size() - 1);
    return model_id{m.number};
  }

  [[nodiscard]] model& operator[](model_id id) noexcept {
    assert(static_cast<std::size_t>(id) < models_.size());
    return models_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const model& operator[](model_id id) const noexcept {
    assert(static_cast<std::size_t>(id) < models_.size());
    return models_[static_cast<std::size_t>(id)];
  }

  /// Calls start(job) for each that waits for an instance and may have one; it takes it.
  template <class F>
  void start_waiting(F start) {
    for (model& m : models_)
      while (m.instances.has_waiting() && m.instances.has_free()) start(m.instances.next());
  }

  /// What a segment asks of the GPU.
  [[nodiscard]] footprint asks(const segment& s) const noexcept {
    if (s.program != no_program)
      return programs_[index(s.program)]->range(s.first, s.first + s.operations.size());
    footprint all;
    double busy = 0;
    for (const operation* op : s.operations) {
      const footprint one = footprint_of(limits_.sm, limits_.sms, *op);
      all.time += one.time;
      busy += one.fill * static_cast<double>(one.time.count());
      all.blocks += one.blocks;
      all.words += one.words;
      if (one.peak > all.peak || all.widest.blocks == 0) all.widest = one.widest;
      all.peak = std::max(all.peak, one.peak);
    }
    all.fill =
        all.time > duration::zero() ? busy / static_cast<double>(all.time.count()) : all.peak;
    return all;
  }

  /// What one kernel of a segment asks of an SM.
  [[nodiscard]] kernel_demand demand(program_id program, std::uint32_t first,
                                     std::span<const operation* const> operations,
                                     std::uint32_t at) const noexcept {
    if (at >= operations.size()) return {};
    if (program != no_program) return programs_[index(program)]->kernel(first + at);
    return footprint_of(limits_.sm, limits_.sms, *operations[at]).widest;
  }

private:
  device_limits limits_;
  std::deque<model> models_;
  std::vector<std::optional<program_footprint>> programs_; ///< by program id
};

} // namespace gsched
