// SPDX-License-Identifier: Apache-2.0
#include "measure/probe_list.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

constexpr std::uint64_t mib = 1 << 20;

/// 0 where the kind's usual level is that of this GPU too.
std::uint32_t usual_level(const cuda::probe_description& d, std::uint64_t l2_bytes) noexcept {
  using kind = cuda::probe_kind;
  if (d.kind != kind::read && d.kind != kind::chase) return 0; // the others are not to stay in L2
  if (2 * d.usual_level * mib <= l2_bytes) return 0;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, l2_bytes / 4 / mib));
}

} // namespace

bool is_usual(const cuda::probe_options& p, std::uint64_t l2_bytes) noexcept {
  const auto kinds = cuda::probe_kinds();
  const auto its =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& d) { return d.kind == p.kind; });
  return p.blocks == 0 && its != kinds.end() && p.level == usual_level(*its, l2_bytes);
}

std::vector<cuda::probe_options> probe_list(sm_count sms, std::uint64_t l2_bytes) {
  std::vector<cuda::probe_options> all;
  const auto add = [&](cuda::probe_kind kind, std::uint32_t level, std::uint32_t blocks = 0,
                       std::uint32_t threads = 0) {
    cuda::probe_options o;
    o.kind = kind;
    o.level = level;
    o.blocks = blocks;
    o.threads = threads;
    all.push_back(o);
  };
  using cuda::probe_kind;
  for (const cuda::probe_description& d : cuda::probe_kinds())
    add(d.kind, usual_level(d, l2_bytes));
  for (const std::uint32_t part : {32u, 8u, 4u, 2u}) // of the SMs; the first one shows l2_loss
    add(probe_kind::copy, 0, std::max(1u, sms.count() / part));
  for (const double part : {8. / 60, 20. / 60}) { // of L2: two arrays that stay there
    const double level = std::round(part * static_cast<double>(l2_bytes / mib));
    add(probe_kind::copy, static_cast<std::uint32_t>(std::max(1., level)), 0, 256);
  }
  for (const std::uint32_t chains : {1u, 2u, 3u}) {
    add(probe_kind::fp32, chains);
    add(probe_kind::fp64, chains);
  }
  for (const std::uint32_t ways : {1u, 2u, 4u, 8u, 16u}) add(probe_kind::shared, ways);
  return all;
}

std::vector<cuda::probe_options> kernel_probes(sm_count sms, std::uint64_t l2_bytes) {
  using kind = cuda::probe_kind;
  const std::uint32_t n = sms.count();
  return {{.kind = kind::sleep},
          {.kind = kind::sleep, .blocks = n / 2},
          {.kind = kind::sleep, .threads = 1024},
          {.kind = kind::sleep, .blocks = n / 2, .threads = 1024},
          {.kind = kind::copy, .blocks = n / 8},
          {.kind = kind::copy, .blocks = n / 4},
          {.kind = kind::copy, .blocks = n / 2},
          {.kind = kind::copy},
          {.kind = kind::read, .level = usual_level(cuda::probe_kind_of("read"), l2_bytes)},
          {.kind = kind::write},
          {.kind = kind::shared, .level = 8},
          {.kind = kind::fp32, .level = 4}};
}

std::vector<cuda::probe_options> waiting_probes(sm_count sms, const architecture_limits& sm) {
  using kind = cuda::probe_kind;
  std::vector<cuda::probe_options> all;
  const auto add_sleeping = [&](std::uint32_t on_each_sm, std::uint32_t threads,
                                std::uint32_t registers = 0, std::uint32_t shared_bytes = 0) {
    cuda::probe_options o;
    o.kind = kind::sleep;
    o.blocks = on_each_sm == 1 ? 0 : on_each_sm * sms.count();
    o.threads = threads;
    o.registers = registers;
    o.shared_bytes = shared_bytes;
    all.push_back(o);
  };
  const auto shared_part = [&](double part) { // of an SM's, as a multiple of 8 KiB
    constexpr std::uint32_t unit = 8 * 1024;
    const double units = std::round(part * sm.shared_bytes / unit);
    return std::min(static_cast<std::uint32_t>(units) * unit, sm.max_shared_per_block);
  };
  add_sleeping(1, 0);
  add_sleeping(1, 0, 128);
  add_sleeping(1, 0, 0, shared_part(9. / 16));
  add_sleeping(1, 0, 255, shared_part(7. / 8));
  add_sleeping(1, std::min(1024u, sm.max_threads_per_block));
  constexpr std::uint32_t warps_left = 4;
  add_sleeping(2, 32 * ((sm.max_warps - warps_left) / 2), 16);
  add_sleeping(sm.max_blocks - 1, 32, 16); // a place is left
  add_sleeping(sm.max_blocks, 32, 16);     // none is
  for (const std::uint32_t chains : {2u, 4u}) all.push_back({.kind = kind::fp32, .level = chains});
  return all;
}

std::vector<cuda::probe_options> with_kernels(std::vector<cuda::probe_options> probes) {
  std::erase_if(probes, [](const cuda::probe_options& p) {
    return cuda::sms_of_blocks(p, sm_count{1}) == 0;
  });
  return probes;
}

bool probe_choice::has(cuda::probe_kind kind) const noexcept {
  return all() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::vector<cuda::probe_options> chosen(const std::vector<cuda::probe_options>& all,
                                        const probe_choice& choice) {
  std::vector<cuda::probe_options> some;
  std::set<std::string> names;
  for (const cuda::probe_options& p : all)
    if (choice.has(p.kind) && names.insert(p.name()).second) some.push_back(p);
  for (const cuda::probe_options& p : choice.exactly)
    if (names.insert(p.name()).second) some.push_back(p);
  return some;
}

} // namespace measure
