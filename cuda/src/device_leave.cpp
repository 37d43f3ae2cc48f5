// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <string>

namespace gsched::cuda {

void device::state::raise(leaving_program& p) noexcept {
  if (p.raised) return;
  p.raised = true;
  const on_gpu here(facts.ordinal);
  const CUresult r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.flag(), 1, 0); });
  if (r != CUDA_SUCCESS) end_with(code_of(r));
}

void device::state::lower(leaving_program& p) noexcept {
  const on_gpu here(facts.ordinal);
  // Each write waits for those before it, so who sees the second one knows of the first.
  CUresult r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.flag(), 0, 0); });
  if (r == CUDA_SUCCESS)
    r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.words.word, ++p.lowered, 0); });
  if (r != CUDA_SUCCESS) return end_with(code_of(r));
  p.lowering = true;
  ++lowering;
}

void device::state::see_lowered() noexcept {
  if (lowering == 0 || broken()) return;
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < graphs->programs(); ++i) {
    leaving_program* const p = graphs->leaving_of(program_id{i});
    if (p != nullptr && p->lowering && !p->is_down()) ++left;
  }
  const bool some = left < lowering;
  lowering = left;
  if (some && !held.empty()) start_held();
}

void device::state::see_end(flight& f, device_lane& l) noexcept {
  l.stalled = {};
  if (f.stuck) {
    const time_point at = now();
    // It may have ended right behind a gate, before that was seen.
    if (f.freed == time_point{} && see_expired(at)) f.freed = at;
    learn_from(f, at);
  }
  if (f.needs_sms) --needing;
  if (f.has_gates()) --l.gated;
  if (l.gated == 0 && l.holds) { // it has passed its last gate, or did not stand for its lease
    if (f.graph->has_expired(l.turn)) lease_ran_out(now());
    l.holds = false;
    --standing;
  }
  if (f.leaves == nullptr) return;
  --l.leaving;
  leaving_program& p = *f.leaves;
  const preemption_end end =
      preemption_end::of(sync::atomic_ref<std::uint64_t>(*f.end_word).load(sync::acquire)); // [L1]
  if (end.what == preemption_end::kind::left) {
    f.how = flight::outcome::left;
    f.operations_ended = end.operations;
    if (!p.rest_from) p.rest_from = f.what.first + end.operations;
    ++statistics.left;
  }
  if (--p.in_flight == 0 && p.raised && !p.lowering) lower(p);
  if (end.what != preemption_end::kind::divergent) return;
  f.how = flight::outcome::wrong;
  end_divergent(f, end);
}

void device::state::end_divergent(const flight& f, const preemption_end& end) noexcept {
  if (broken()) return;
  end_with(errc::device_failed, &f, true);
  try {
    failure = "GPU " + std::to_string(facts.ordinal) + ": " + graphs->host(f.what.program).name() +
              " operation " + std::to_string(f.what.first + end.operations) +
              ": checkpoint at line " + std::to_string(end.line) +
              " in divergent code, expected one that all threads of a block reach";
  } catch (...) {
    failure.emplace(); // no memory for the words; the code is there
  }
}

std::error_code device::state::begin_anew(leaving_program& p, std::uint32_t first) noexcept {
  if (!p.rest_from || p.in_flight > 0) return {};
  const bool rest = first == *p.rest_from;
  p.rest_from.reset();
  if (rest) return {};
  // Of a program that is run from elsewhere, what was left is given up.
  try {
    const short_leases leases(*this);
    statistics.rerun_blocks += p.slots.reset();
  } catch (const error& e) {
    return e.code();
  }
  return {};
}

} // namespace gsched::cuda
