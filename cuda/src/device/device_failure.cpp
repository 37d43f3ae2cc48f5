// SPDX-License-Identifier: Apache-2.0
#include "device/device_state.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// Limits the length of a symbol; symbols of library kernels can be very long.
std::string shortened(const std::string& symbol) {
  constexpr std::size_t most = 120;
  return symbol.size() <= most ? symbol : symbol.substr(0, most) + "...";
}

} // namespace

std::error_code device::state::lasting_error(CUstream s) noexcept {
  cudaError_t e = cudaSuccess;
  static_cast<void>(call_driver([&] {
    e = cudaStreamQuery(s);
    return e;
  }));
  static_cast<void>(cudaGetLastError()); // a busy stream sets the last error
  const bool of_capture =                // an error of another thread's capture
      e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorCapturedEvent;
  return e == cudaErrorNotReady || of_capture ? std::error_code{} : code_of(e);
}

void device::state::check_health(time_point at) noexcept {
  if (at - last_check < check_every) return;
  const duration since = std::min(at - last_check, most_stalled_at_once);
  last_check = at;
  if (broken()) return;
  const on_gpu here(facts.ordinal);
  bool suspects = false;
  for (device_lane& l : lanes) {
    if (l.flights.empty()) continue;
    device_segment& f = l.flights.front();
    if (f.at == device_segment::stage::ended) {
      // The segment and its kernels have ended: a word that is missing by now never comes.
      if (f.seen_ended == time_point{} || f.words_lost || at - f.seen_ended < words_grace) continue;
      f.words_lost = true;
      statistics.lost_words += f.words - f.words_read;
      continue;
    }
    if (f.at != device_segment::stage::started) continue;
    if (f.words_read > f.words_checked) {
      f.last_word = at;
      l.stalled = {};
    }
    f.words_checked = f.words_read;
    if (is_obstructed(l)) continue;
    l.stalled += since;
    if (l.stalled < check_every) continue;
    if (const std::error_code e = lasting_error(l.stream)) return end_with(e);
    if (options.watchdog == duration::zero() || l.stalled < options.watchdog / 2) continue;
    suspects = true;
    suspect(l, at);
    if (broken()) return;
  }
  if (!suspects) pulse_sent.reset();
}

bool device::state::is_obstructed(const device_lane& l) const noexcept {
  if (l.holds && !l.owes_yielded) return true; // held at a gate
  return std::any_of(lanes.begin(), lanes.end(), [&](const device_lane& other) {
    return other.priority < l.priority && other.oldest != nullptr;
  });
}

void device::state::suspect(device_lane& l, time_point at) noexcept {
  if (!pulse_sent) return send_pulse(at);
  if (l.stalled < options.watchdog) return;
  if (pulse_has_come()) return fail_lane(l);
  // The GPU runs nothing, or nothing of this process: all lanes are stuck.
  if (at - *pulse_sent < options.watchdog / 2) return;
  for (const device_lane& each : lanes)
    if (each.oldest != nullptr) abandon_stream(facts.ordinal, each.stream);
  end_with(code_of(cudaErrorLaunchTimeout), &l.flights.front(), true);
}

void device::state::send_pulse(time_point at) noexcept {
  const CUresult r = call_driver([&] { return pulse->mark(urgent); });
  if (r != CUDA_SUCCESS) return end_with(code_of(r));
  ++pulse->ends().launched;
  pulse_sent = at;
}

bool device::state::pulse_has_come() const noexcept {
  end_word& w = pulse->ends();
  // [L1] acquire <- the marker's store.
  return sync::atomic_ref<std::uint64_t>(*w.seen).load(sync::acquire) >= w.launched;
}

void device::state::fail_lane(device_lane& l) noexcept {
  const std::error_code why = code_of(cudaErrorLaunchTimeout);
  lost = true;
  try {
    why_failed = describe(why, &l.flights.front(), true);
    if (std::exchange(l.holds, false)) {
      --holding_lanes;
      order_gates(l); // gates behind the hung kernel must not close
    }
    for (device_segment& f : l.flights) {
      if (f.at != device_segment::stage::started) continue;
      f.at = device_segment::stage::lost;
      ++statistics.hung;
      if (f.has_gates()) --l.gated;
      if (f.needs_sms) --needing;
      if (f.preemptible != nullptr) {
        --l.preemptible;
        --f.preemptible->in_flight;
      }
      if (f.graph != nullptr) f.graph->lost = true;
      if (f.what.program != no_program) graphs->loaded(f.what.program).lost = true;
    }
    l.oldest = nullptr;
    l.stalled = {};
    // Work that waits for the hung kernel stays on the old stream, with the lane's own graphs.
    l.graphs->abandon();
    abandon_stream(facts.ordinal, l.stream);
    if (!spares->make_room_for_lane()) return end_with(why);
    make_stream(l);
    l.graphs = std::make_unique<lane_graphs>(facts.ordinal, *ends, primary,
                                             l.own ? l.own->context() : primary, room, urgent);
  } catch (...) {
    return end_with(why);
  }
  if (!held.empty()) start_held();
}

void device::state::end_with(std::error_code why, const device_segment* with, bool alone) noexcept {
  if (broken()) return;
  read_ends(); // segments that have already ended count as done
  failed = why;
  open_gates(); // held graphs can then end
  try {
    failure = describe(why, with, alone);
    why_failed = *failure;
  } catch (...) {
    failure.emplace(); // out of memory: the code is still reported
  }
}

std::string device::state::describe(std::error_code why, const device_segment* with, bool alone) {
  constexpr std::size_t most = 16;
  struct program_named {
    const device_segment* first;
    std::size_t lanes;
  };
  std::vector<program_named> named;
  const auto name = [&](const device_segment& f) {
    const auto same = std::find_if(named.begin(), named.end(), [&](const program_named& n) {
      return n.first->what.program == f.what.program;
    });
    if (same == named.end())
      named.push_back({&f, 1});
    else if (same->first != &f)
      ++same->lanes;
  };
  if (with != nullptr) name(*with);
  // CUDA does not report which kernel failed: it was one at the head of a lane. Several lanes may
  // run the same program, which is named once.
  if (!alone)
    for (const device_lane& l : lanes)
      if (l.oldest != nullptr) name(*l.oldest);
  std::string line = "GPU " + std::to_string(facts.ordinal) + ": " + why.message();
  for (std::size_t i = 0; i < named.size() && i <= most; ++i) {
    line += i == 0 ? "; running: " : " | ";
    line += i < most ? describe(*named[i].first) : "...";
    if (i < most && named[i].lanes > 1)
      line += " and " + std::to_string(named[i].lanes - 1) + " more segments of it";
  }
  return line;
}

std::string device::state::describe(const device_segment& f) {
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
