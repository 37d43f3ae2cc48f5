// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <job/waitlist_model.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {

/// A waitlist and the model, given the same calls; check() compares every result.
class waitlist_pair {
public:
  waitlist_pair(entry_pool& pool, const std::vector<program>& programs,
                default_stream mode = default_stream::legacy)
      : list(pool, mode), model(mode), programs_(programs) {}

  void create_stream(stream_kind k) {
    stream_id id{};
    REQUIRE(!list.create_stream(k, id));
    model.create_stream(k);
    REQUIRE(id == stream_id{model.streams()});
  }
  void create_event() {
    REQUIRE(index(list.create_event()) == events_);
    model.create_event();
    ++events_;
  }
  void launch(stream_id s, duration expected) {
    operation op;
    op.handle = fresh_name();
    op.expected = expected;
    REQUIRE(!list.launch(s, op));
    model.work(model.number(s), launches_++, op);
  }
  void launch_program(stream_id s, std::size_t which) {
    const program& p = programs_[which];
    REQUIRE(!list.launch(s, p));
    for (const operation& op : p.operations()) model.work(model.number(s), launches_, op);
    ++launches_;
  }
  void record(std::uint32_t e, stream_id s) {
    REQUIRE(!list.record(event_id{e}, s));
    model.record(e, model.number(s));
    ++launches_;
  }
  void wait(stream_id s, std::uint32_t e) {
    REQUIRE(!list.wait(s, event_id{e}));
    model.wait(model.number(s), e);
    ++launches_;
  }
  void call(stream_id s) {
    void* const name = fresh_name();
    REQUIRE(!list.call(s, {[](void*) noexcept {}, name}));
    model.call(model.number(s), name);
    ++launches_;
  }

  /// Takes a cut and compares it with the model: the right operations in the right order.
  bool cut_one(duration quantum, std::size_t room, std::optional<stream_id> only = {}) {
    model.update();
    const auto head = only ? model.head(model.number(*only)) : model.oldest_head();
    const cut_extent extent = list.measure(quantum, room);
    const duration ahead = extent.expected;
    std::array<const operation*, 16> buffer{};
    const auto first = list.head(room);
    REQUIRE(first.has_value() == model.oldest_head().has_value());
    std::uint32_t exactly = 0; // a number of operations that try_cut cannot be given
    if (!only && first && first->graph != nullptr && quantum.count() % 3 == 0)
      exactly = 1 + static_cast<std::uint32_t>(quantum.count()) % (first->end - first->at);
    const auto c = exactly > 0 ? std::optional(list.take_head(exactly, {}))
                   : only      ? list.try_cut(quantum, std::span(buffer).first(room), only)
                               : list.try_cut(extent, quantum, std::span(buffer).first(room));
    if (exactly > 0) {
      REQUIRE(c->operations.size() == exactly);
      REQUIRE(c->first == first->at);
      REQUIRE(c->program == first->graph->id());
    } else if (!only && c) {
      const auto of = first->graph != nullptr ? first->graph->id() : no_program;
      REQUIRE(c->program == of);
    }
    REQUIRE(c.has_value() == head.has_value());
    if (!c) return false;
    const std::uint32_t s = model.at(*head).stream;
    REQUIRE(c->stream == model.handle(s));
    REQUIRE(!c->operations.empty());
    duration sum{};
    for (const operation* op : c->operations) {
      model.update();
      const auto next = model.head(s);
      REQUIRE(next.has_value());
      REQUIRE(model.at(*next).name == op->handle);
      model.at(*next).dispatched = true;
      sum += op->expected;
    }
    CHECK(c->expected == sum);
    if (exactly > 0) return true;
    if (!only) CHECK(ahead == sum);
    if (c->operations.size() > 1) CHECK(sum - c->operations.back()->expected <= quantum);
    CHECK(c->last_work == (model.pending() == 0));
    return true;
  }
  void done(stream_id s, std::size_t n) {
    list.done(s, n);
    model.done(model.number(s), n);
  }
  void undo(stream_id s, std::size_t n) {
    list.undo(s, n);
    model.undo(model.number(s), n);
  }
  void drop() {
    list.drop_pending();
    model.drop();
  }
  bool take_call() {
    model.update();
    const auto due = model.due();
    const auto c = list.try_take_call();
    REQUIRE(c.has_value() == !due.empty());
    if (!c) return false;
    const auto it = std::find_if(due.begin(), due.end(),
                                 [&](std::size_t i) { return model.at(i).name == c->argument; });
    REQUIRE(it != due.end());
    REQUIRE(model.handle(model.at(*it).stream) == c->stream);
    model.at(*it).taken = true;
    running_.push_back({*it, c->stream});
    return true;
  }
  [[nodiscard]] std::size_t running() const { return running_.size(); }
  void finish_call(std::size_t which) {
    const auto [node, stream] = running_[which];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    list.call_done(stream);
    model.at(node).ended = true;
  }

  void check() {
    model.update();
    bool any = !model.due().empty();
    std::size_t in_flight = 0;
    for (std::uint32_t s = 0; s < model.streams(); ++s) {
      const stream_id id = model.handle(s);
      const bool active = model.head(s).has_value();
      any = any || active;
      in_flight += model.in_flight(s);
      REQUIRE(list.has_active(id) == active);
      REQUIRE(list.idle(id) == model.idle(s));
      REQUIRE(list.in_flight(id) == model.in_flight(s));
    }
    REQUIRE(list.has_active() == any);
    REQUIRE(list.idle() == model.idle());
    REQUIRE(list.in_flight() == in_flight);
    REQUIRE(list.pending() == model.pending());
    for (std::uint32_t e = 0; e < events_; ++e)
      REQUIRE(list.complete(event_id{e}) == model.complete(e));
  }

  [[nodiscard]] std::uint32_t events() const { return events_; }

  waitlist list;
  waitlist_model model;

private:
  void* fresh_name() {
    names_.push_back(0);
    return &names_.back();
  }

  struct running_call {
    std::size_t node;
    stream_id stream;
  };

  const std::vector<program>& programs_;
  std::deque<char> names_;
  std::vector<running_call> running_;
  std::uint32_t events_ = 0;
  std::size_t launches_ = 0;
};

/// Programs whose operations have distinct names.
inline const std::vector<program>& some_programs() {
  static const std::vector<program> programs = [] {
    static std::array<char, 64> names{};
    std::vector<program> out;
    std::size_t used = 0;
    for (const std::size_t size : {1u, 2u, 5u, 9u}) {
      std::vector<operation> ops(size);
      for (std::size_t i = 0; i < size; ++i) {
        ops[i].handle = &names[used++];
        ops[i].expected = duration{static_cast<int>(7 * i % 4) * 5};
      }
      out.emplace_back("p" + std::to_string(size), std::move(ops));
      out.back().set_id(program_id{static_cast<std::uint32_t>(out.size() - 1)});
    }
    return out;
  }();
  return programs;
}

} // namespace gsched::testing
