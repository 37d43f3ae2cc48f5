// SPDX-License-Identifier: Apache-2.0
#include "measure/probe_list.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

std::vector<cuda::probe_options> probe_list(sm_count sms) {
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
  for (const cuda::probe_description& d : cuda::probe_kinds()) add(d.kind, 0);
  for (const std::uint32_t part : {32u, 8u, 4u, 2u}) // of the SMs; the first one shows l2_loss
    add(probe_kind::copy, 0, std::max(1u, sms.count() / part));
  for (const std::uint32_t mib : {8u, 20u}) add(probe_kind::copy, mib, 0, 256);
  for (const std::uint32_t chains : {1u, 2u, 3u}) {
    add(probe_kind::fp32, chains);
    add(probe_kind::fp64, chains);
  }
  for (const std::uint32_t ways : {1u, 2u, 4u, 8u, 16u}) add(probe_kind::shared, ways);
  return all;
}

std::vector<cuda::probe_options> kernel_probes(sm_count sms) {
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
          {.kind = kind::read},
          {.kind = kind::write},
          {.kind = kind::shared, .level = 8},
          {.kind = kind::fp32, .level = 4}};
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
