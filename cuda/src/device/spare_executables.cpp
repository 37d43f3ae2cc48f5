// SPDX-License-Identifier: Apache-2.0
#include "device/spare_executables.hpp"

#include "graph/end/marker.hpp"
#include "graph/flatten/graph_read.hpp"
#include <gsched/cuda/error.hpp>

namespace gsched::cuda {

spare_executables::spare_executables(const driver_functions& cu, end_words& words, CUcontext place,
                                     std::size_t lanes, std::size_t each)
    : cu_(cu), words_(words), each_(each) {
  constexpr const char* what = "spare graphs";
  executables_.reserve(lanes * each);
  kept_words_.reserve(lanes);
  try {
    for (std::size_t i = 0; i < lanes; ++i) kept_words_.push_back(words_.take());
    const graph_owner one = empty_graph();
    add_marker(cu_, one.get(), marker::counts, *kept_words_.front(), place);
    for (std::size_t i = 0; i < lanes * each; ++i) {
      CUgraphExec made = nullptr;
      check(cu_.cuGraphInstantiateWithFlags(&made, one.get(), 0), what);
      executables_.push_back(made); // never launched
    }
  } catch (...) {
    destroy(executables_.size());
    for (end_word* const w : kept_words_) words_.give_back(w);
    throw;
  }
}

spare_executables::~spare_executables() {
  destroy(executables_.size());
  for (end_word* const w : kept_words_) words_.give_back(w);
}

bool spare_executables::make_room_for_lane() noexcept {
  if (kept_words_.empty()) return false;
  destroy(each_);
  words_.give_back(kept_words_.back());
  kept_words_.pop_back();
  return true;
}

void spare_executables::destroy(std::size_t n) noexcept {
  for (; n > 0 && !executables_.empty(); --n) {
    cu_.cuGraphExecDestroy(executables_.back());
    executables_.pop_back();
  }
}

} // namespace gsched::cuda
