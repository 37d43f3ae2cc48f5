// SPDX-License-Identifier: Apache-2.0
#include "desk.hpp"

#include "refusal.hpp"

#include <algorithm>
#include <utility>

namespace gsched::abi {

void set_line(std::string& to, const char* line) noexcept {
  try {
    to = line;
  } catch (...) {
    to.clear();
  }
}

void refuse_one_more_model(std::uint32_t so_far) {
  if (so_far >= desk::most_models)
    throw refusal(GSCHED_BAD_ARGUMENT, "gsched_add_model: the server has had " +
                                           std::to_string(so_far) +
                                           " models, removed ones included, expected fewer than " +
                                           std::to_string(desk::most_models));
}

gsched_state desk::signal(ticket& t, gsched_state how) noexcept {
  if (t.signal_event == nullptr || events == nullptr || !events->record) return how;
  // Away nothing may be read that a taker-over writes. The ticket is still on the list of those
  // that it ends, should this not come back.
  const int code = whose.away(
      [&record = events->record, event = t.signal_event]() noexcept { return record(event); });
  if (code == 0 || how != GSCHED_FINISHED) return how;
  try {
    t.error = "signal_event: " + events->words(code);
  } catch (...) { // no memory for the line
  }
  t.code = GSCHED_BAD_ARGUMENT;
  ++unsignalled;
  return GSCHED_FAILED;
}

void desk::end(ticket& t, gsched_state how, std::int64_t at_ns) noexcept {
  if (how == GSCHED_FINISHED) t.error.clear();
  how = signal(t, how);
  if (t.live_hook.is_linked()) live.erase(live.iterator_to(t));
  t.await_hook.unlink();
  if (t.after != nullptr) std::exchange(t.after, nullptr)->let_go();
  if (std::exchange(t.taken_up, false)) {
    entry& of = models[t.model];
    // [A1] release -> [A1] acquire in remove_model: what the request did with the model's memory
    if (of.active.fetch_sub(1, sync::release) == 1 && of.removed.load(sync::relaxed))
      futex_wake_all(of.active); // unordered: set before the server's thread was asked to look
  }
  t.state = how;
  t.end_ns = at_ns;
  t.publish();
  if (t.done != nullptr) t.done(t.user, &t);
  if (t.end_collection()) ended.put(t); // with the collector's share
  t.let_go();
}

void patience::look() {
  const std::uint64_t now = at_.rounds.load(sync::relaxed);
  if (now != seen_) {
    seen_ = now;
    since_ = now_ns();
    return;
  }
  if (now_ns() - since_ < at_.longest_away_ns || !at_.whose.try_take_over()) return;
  const std::string why = "the driver did not come back within " +
                          std::to_string(at_.longest_away_ns / 1'000'000) +
                          " ms; the server's thread is left behind";
  at_.set_failure(why);
  at_.events = nullptr; // their calls would not come back either
  at_.keep_live();
  at_.end_everything(GSCHED_FAILED, GSCHED_DEVICE_FAILED, why.c_str());
}

void desk::end_unposted(ticket& t) noexcept {
  set_line(t.error, "cancelled: the server was closed");
  t.state = GSCHED_CANCELLED;
  t.code = GSCHED_CLOSED;
  t.end_ns = now_ns();
  t.publish();
  t.let_go();                              // the caller's share: the call gives it no ticket
  static_cast<void>(unposted.try_post(t)); // which is never closed
}

void desk::keep_live() noexcept {
  for (ticket& t : live) {
    t.hold();
    try {
      leave({std::shared_ptr<void>(&t, [](void*) {})});
    } catch (...) { // no memory for the list; the ticket stays all the same
    }
  }
}

std::unique_ptr<model_record> desk::take_record(const model_record& of) noexcept {
  const auto at = std::find_if(records.begin(), records.end(),
                               [&](const auto& each) { return each.get() == &of; });
  std::unique_ptr<model_record> taken = std::move(*at);
  records.erase(at);
  return taken;
}

void desk::end_everything(gsched_state how, gsched_code code, const char* why) noexcept {
  stopping.store(true, sync::relaxed); // unordered: the inbox decides
  const refusal closed(GSCHED_CLOSED, "the server was closed");
  const auto give_up = [&](ticket& t) {
    set_line(t.error, why);
    t.code = code;
    end(t, how, now_ns());
  };
  while (!live.empty()) give_up(live.front());
  for (; !commands.empty(); commands.pop_front()) commands.front()->answer(closed);
  box.close([&](message& m) {
    switch (m.what) {
    case message::kind::submit: {
      ticket& t = *static_cast<ticket*>(m.of);
      live.push_back(t); // its signal_event may never return: a takeover ends what is live
      return give_up(t);
    }
    case message::kind::cancel: static_cast<ticket*>(m.of)->let_go(); return;
    case message::kind::command: static_cast<command*>(m.of)->answer(closed); return;
    }
  });
  ended.close();
}

} // namespace gsched::abi
