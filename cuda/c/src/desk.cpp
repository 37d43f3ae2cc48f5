// SPDX-License-Identifier: Apache-2.0
#include "desk.hpp"

#include "refusal.hpp"

namespace gsched::abi {

void set_line(std::string& to, const char* line) noexcept {
  try {
    to = line;
  } catch (...) {
    to.clear();
  }
}

void desk::end(ticket& t, gsched_state how, std::int64_t at_ns) noexcept {
  if (t.live_hook.is_linked()) {
    live.erase(live.iterator_to(t));
    --live_count;
  }
  if (how == GSCHED_FINISHED) t.error.clear();
  t.state = how;
  t.end_ns = at_ns;
  t.publish();
  if (t.done != nullptr) t.done(t.user, &t);
  if (t.collected) ended.put(t); // with the share of who will collect it
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
  at_.end_everything(GSCHED_FAILED, why.c_str());
}

void desk::end_everything(gsched_state how, const char* why) noexcept {
  stopping.store(true, sync::relaxed); // unordered: the mailbox decides
  const refusal closed(GSCHED_CLOSED, "the server was closed");
  const auto give_up = [&](ticket& t) {
    set_line(t.error, why);
    end(t, how, now_ns());
  };
  while (!live.empty()) give_up(live.front());
  for (; !commands.empty(); commands.pop_front()) commands.front()->answer(closed);
  box.close([&](message& m) {
    switch (m.what) {
    case message::kind::submit: give_up(*static_cast<ticket*>(m.of)); return;
    case message::kind::cancel: static_cast<ticket*>(m.of)->let_go(); return;
    case message::kind::command: static_cast<command*>(m.of)->answer(closed); return;
    }
  });
  ended.close();
}

} // namespace gsched::abi
