// SPDX-License-Identifier: Apache-2.0
#include "measure/places.hpp"

#include <gsched/cuda_tools/partition_sms.hpp>

#include <numeric>
#include <string>
#include <utility>

namespace measure {

using namespace gsched;

places::places(int gpu) : gpu_(gpu), sizes_(cuda::group_sizes(gpu)) {}

sm_count places::sms(const group_range& r) const noexcept {
  const auto at = [&](std::size_t i) { return sizes_.begin() + static_cast<std::ptrdiff_t>(i); };
  return sm_count{std::accumulate(at(r.first), at(r.last), 0u)};
}

std::shared_ptr<const cuda::partition> places::at(const group_range& r) {
  if (r.first == 0 && r.last == sizes_.size()) return nullptr;
  if (const auto kept = parts_.find(r); kept != parts_.end()) return kept->second.it;
  std::vector<std::uint32_t> which(r.last - r.first);
  std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(r.first));
  part made{std::make_shared<const cuda::partition>(gpu_, which), {}};
  made.sms = cuda::sm_numbers(*made.it);
  for (const auto& [other, its] : parts_)
    if (other.last <= r.first || r.last <= other.first)
      cuda::check_apart("partitions of " + std::to_string(made.sms.size()) + " and " +
                            std::to_string(its.sms.size()) + " SMs",
                        made.sms, its.sms);
  return parts_.emplace(r, std::move(made)).first->second.it;
}

cuda::placed_graph& places::placed(const cuda::program& p, const group_range& r) {
  std::unique_ptr<cuda::placed_graph>& kept = graphs_[{&p, r}];
  if (!kept) kept = std::make_unique<cuda::placed_graph>(p, at(r));
  return *kept;
}

} // namespace measure
