// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/waitlist.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace gsched::testing {

/// CUDA's ordering rules as in its documentation, over the whole launch sequence: each launch has
/// an edge from every earlier launch that must precede it. Deliberately simple.
class waitlist_model {
public:
  enum class kind : std::uint8_t { work, record, wait, call };

  struct node {
    kind what = kind::work;
    std::uint32_t stream = 0;   ///< 0 legacy, 1 per-thread, then as created
    const void* name = nullptr; ///< the operation's handle
    std::size_t launch = 0;     ///< operations of one program share it
    duration expected{};
    std::vector<std::size_t> before{}; ///< nodes
    bool dispatched = false;
    bool ended = false; ///< work and calls; records and waits are derived
    bool taken = false; ///< calls
    bool dropped = false;
  };

  explicit waitlist_model(default_stream mode) : default_(mode == default_stream::legacy ? 0 : 1) {
    streams_ = {stream_kind::blocking, stream_kind::blocking};
  }

  /// The index of a stream, by its handle.
  [[nodiscard]] std::uint32_t number(stream_id id) const {
    return index(id) == 0 ? default_ : index(id) - 1;
  }
  /// The stream handle in a cut.
  [[nodiscard]] stream_id handle(std::uint32_t stream) const {
    return stream == default_ ? stream_default : stream_id{stream + 1};
  }
  [[nodiscard]] std::uint32_t streams() const {
    return static_cast<std::uint32_t>(streams_.size());
  }

  void create_stream(stream_kind k) { streams_.push_back(k); }
  void create_event() { records_.push_back(std::nullopt); }

  void work(std::uint32_t s, std::size_t launch, const operation& op) {
    node& n = add(kind::work, s);
    n.name = op.handle;
    n.launch = launch;
    n.expected = op.expected;
  }
  void record(std::size_t event, std::uint32_t s) {
    add(kind::record, s);
    records_[event] = nodes_.size() - 1;
  }
  void wait(std::uint32_t s, std::size_t event) {
    node& n = add(kind::wait, s);
    if (records_[event]) n.before.push_back(*records_[event]);
  }
  void call(std::uint32_t s, const void* name) { add(kind::call, s).name = name; }

  /// Call after any change, before the queries below. O(edges).
  void update() {
    ended_.assign(nodes_.size(), false);
    reached_.assign(nodes_.size(), false);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const node& n = nodes_[i];
      const bool control = n.what == kind::record || n.what == kind::wait;
      ended_[i] = n.dropped || (control ? all_ended(n) : n.ended);
      if (n.dropped || n.what == kind::call)
        reached_[i] = ended_[i];
      else
        reached_[i] = control ? may_follow(n) : n.dispatched;
    }
  }

  /// The stream's oldest operation that is not dispatched, if it may be submitted now.
  [[nodiscard]] std::optional<std::size_t> head(std::uint32_t s) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const node& n = nodes_[i];
      if (n.stream != s || n.what != kind::work || n.dropped || n.dispatched) continue;
      if (may_follow(n)) return i;
      return std::nullopt;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> oldest_head() const {
    std::optional<std::size_t> best;
    for (std::uint32_t s = 0; s < streams(); ++s)
      if (const auto h = head(s); h && (!best || nodes_[*h].launch < nodes_[*best].launch))
        best = h;
    return best;
  }
  [[nodiscard]] std::vector<std::size_t> due() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const node& n = nodes_[i];
      if (n.what == kind::call && !n.dropped && !n.taken && all_ended(n)) out.push_back(i);
    }
    return out;
  }
  [[nodiscard]] bool idle() const {
    return std::find(ended_.begin(), ended_.end(), false) == ended_.end();
  }
  /// For the legacy stream: whether an action in it would start at once.
  [[nodiscard]] bool idle(std::uint32_t s) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::uint32_t other = nodes_[i].stream;
      if ((other == s || (s == 0 && must_precede(other, 0))) && !ended_[i]) return false;
    }
    return true;
  }
  [[nodiscard]] bool complete(std::size_t event) const {
    return !records_[event] || ended_[*records_[event]];
  }
  [[nodiscard]] std::size_t in_flight(std::uint32_t s) const {
    return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [s](auto& n) {
      return n.stream == s && n.what == kind::work && n.dispatched && !n.ended;
    }));
  }
  [[nodiscard]] std::size_t pending() const {
    return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](auto& n) {
      return n.what == kind::work && !n.dispatched && !n.dropped;
    }));
  }

  /// The oldest n in-flight operations of the stream end.
  void done(std::uint32_t s, std::size_t n) {
    for (node& x : nodes_)
      if (n > 0 && x.stream == s && x.what == kind::work && x.dispatched && !x.ended) {
        x.ended = true;
        --n;
      }
  }
  /// The newest n are returned.
  void undo(std::uint32_t s, std::size_t n) {
    for (std::size_t i = nodes_.size(); n > 0 && i-- > 0;) {
      node& x = nodes_[i];
      if (x.stream != s || x.what != kind::work || !x.dispatched || x.ended) continue;
      x.dispatched = false;
      --n;
    }
  }
  void drop() {
    update();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      node& n = nodes_[i];
      const bool stays = n.what == kind::call ? n.taken : reached_[i];
      if (ended_[i] || stays) continue;
      n.dropped = true;
      for (auto& r : records_)
        if (r == i) r.reset();
    }
  }

  [[nodiscard]] node& at(std::size_t i) { return nodes_[i]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

private:
  /// Whether a launch into `earlier` precedes later launches into `later`.
  [[nodiscard]] bool must_precede(std::uint32_t earlier, std::uint32_t later) const {
    if (earlier == later) return true;
    if (streams_[earlier] != stream_kind::blocking || streams_[later] != stream_kind::blocking)
      return false;
    return earlier == 0 || later == 0;
  }

  node& add(kind k, std::uint32_t s) {
    node n;
    n.what = k;
    n.stream = s;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (must_precede(nodes_[i].stream, s)) n.before.push_back(i);
    nodes_.push_back(std::move(n));
    return nodes_.back();
  }

  [[nodiscard]] bool all_ended(const node& n) const {
    return std::all_of(n.before.begin(), n.before.end(), [&](std::size_t i) { return ended_[i]; });
  }
  /// The lane keeps the stream's own order behind in-flight work; all other predecessors have
  /// ended.
  [[nodiscard]] bool may_follow(const node& n) const {
    return std::all_of(n.before.begin(), n.before.end(), [&](std::size_t i) {
      return ended_[i] || (nodes_[i].stream == n.stream && reached_[i]);
    });
  }

  std::uint32_t default_;
  std::vector<stream_kind> streams_;
  std::vector<std::optional<std::size_t>> records_; ///< by event: the latest record
  std::vector<node> nodes_;
  std::vector<bool> ended_;
  std::vector<bool> reached_;
};

} // namespace gsched::testing
