// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/cuda/stand_in_inference.hpp"
#include "common/run/configuration.hpp"
#include "common/timeline.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/padded_stand_in.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace common {

/// Makes the GPU that --device names the current one, for which stand-ins are made.
/// Errors   no_device.
[[nodiscard]] gsched::cuda::gpu open_gpu(const device_choice& which);

/// A backend on a real GPU.
struct cuda_backend {
  using device = gsched::cuda::device;
  using body = stand_in_inference;
  using padder = gsched::cuda::padded_stand_ins;
  using padded = gsched::cuda::program;

  int gpu;
  timeline* record;
  std::uint64_t in_flight = 0;
  gsched::time_point since{}; ///< when the first of the segments in flight was submitted
  gsched::duration worked{};

  [[nodiscard]] device make_device(const configuration& how) const;
  [[nodiscard]] static body make_body(const gsched::profile& p, gsched::preemptibility leaves,
                                      std::uint32_t instances) {
    return body(p, leaves, instances);
  }
  [[nodiscard]] static padder make_padder(gsched::level_rule rule) { return padder(rule); }
  [[nodiscard]] static std::size_t add(padder& to, const gsched::profile& of,
                                       const gsched::program&) {
    return to.add(of);
  }
  [[nodiscard]] static gsched::program& host_of(padded& p) noexcept { return p.host(); }
  static void prepare(device& d, const gsched::program& p, std::size_t first, std::size_t last) {
    d.prepare(p, first, last);
  }
  static void spend(const device& d, gsched::duration t) noexcept;
  void submitted(const gsched::job& j, const gsched::segment& s, gsched::time_point now) noexcept;
  void landed(gsched::segment_id id, gsched::time_point now) noexcept;
  [[nodiscard]] gsched::duration busy(const device&) const noexcept { return worked; }
  [[nodiscard]] static std::optional<std::uint64_t> rerun(const device& d) noexcept {
    return d.statistics().rerun_blocks;
  }
  /// A failed device takes no more requests.
  [[nodiscard]] static bool ended(const device& d) noexcept { return d.failure().has_value(); }
  static void finish(const device& d, const gsched::dispatch_statistics& s);
};

} // namespace common
