// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <algorithm>
#include <string>

namespace gsched::cuda {

namespace {

/// Symbols of libraries' kernels can be longer than a screen.
std::string shortened(const std::string& symbol) {
  constexpr std::size_t most = 120;
  return symbol.size() <= most ? symbol : symbol.substr(0, most) + "...";
}

} // namespace

std::error_code device::state::lasting_error(CUstream s) const noexcept {
  const cudaError_t e = cudaStreamQuery(s);
  static_cast<void>(cudaGetLastError()); // a stream that is busy counts as an error there
  return e == cudaErrorNotReady ? std::error_code{} : code_of(e);
}

void device::state::check_health(time_point at) noexcept {
  if (at - last_check < check_every) return;
  last_check = at;
  if (broken()) return;
  const on_gpu here(facts.ordinal);
  for (device_lane& l : lanes) {
    if (l.flights.empty()) continue;
    flight& f = l.flights.front();
    if (f.at == flight::stage::ended) {
      // It has ended, and so have its kernels: a word that is not there by now never comes.
      if (f.seen_ended == time_point{} || f.words_lost || at - f.seen_ended < words_grace) continue;
      f.words_lost = true;
      statistics.lost_words += f.words - f.words_read;
      continue;
    }
    if (f.at != flight::stage::started) continue;
    if (f.words_read > f.words_checked) f.last_word = at;
    f.words_checked = f.words_read;
    const duration still = at - std::max({f.started, l.last_progress, f.last_word});
    if (still < check_every) continue;
    if (const std::error_code e = lasting_error(l.stream)) return end_with(e);
    const bool stands = l.yields && !l.owes_yielded; // whose work waits on purpose
    if (options.watchdog > duration::zero() && still > options.watchdog && !stands)
      return end_with(code_of(cudaErrorLaunchTimeout), &f, true);
  }
}

void device::state::end_with(std::error_code why, const flight* with, bool alone) noexcept {
  if (broken()) return;
  read_ends(); // what has ended in time has ended well
  failed = why;
  open_gates(); // so that what stands at one ends
  try {
    failure = describe(why, with, alone);
  } catch (...) {
    failure.emplace(); // no memory for the words; the code is there
  }
}

std::string device::state::describe(std::error_code why, const flight* with, bool alone) {
  constexpr int most = 16;
  std::string line = "GPU " + std::to_string(facts.ordinal) + ": " + why.message();
  int named = 0;
  const auto name = [&](const flight& f) {
    line += named == 0 ? "; running: " : " | ";
    line += named < most ? describe(f) : "...";
    ++named;
  };
  if (with != nullptr) name(*with);
  if (alone) return line;
  // CUDA does not say which kernel it was: one of those that were at the head of a lane.
  for (const device_lane& l : lanes)
    if (l.oldest != nullptr && named <= most) name(*l.oldest);
  return line;
}

std::string device::state::describe(const flight& f) {
  const segment& s = f.what;
  if (s.program == no_program)
    return std::to_string(s.operations.size()) + " copies or sets of job " +
           std::to_string(index(s.owner));
  const gsched::program& host = graphs->host(s.program);
  const std::size_t last = s.first + s.operations.size();
  std::string line =
      host.name() + " operations " + std::to_string(s.first) + " to " + std::to_string(last - 1);
  const program* const p = program::of(host);
  if (p == nullptr) return line;
  constexpr int most = 3;
  int kernels = 0;
  for (std::size_t i = s.first; i < last && kernels <= most; ++i) {
    const std::string& symbol = p->facts()[i].symbol;
    if (symbol.empty()) continue;
    line += kernels == 0 ? " (" : ", ";
    line += kernels < most ? shortened(symbol) : "...";
    ++kernels;
  }
  return kernels > 0 ? line + ")" : line;
}

} // namespace gsched::cuda
