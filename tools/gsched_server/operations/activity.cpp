// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/activity.hpp"

#include <gsched/core/id.hpp>

#include <algorithm>
#include <bit>

namespace gsched_server {

namespace sync = gsched::sync;

namespace {

// Bits of the last word, from the lowest: kind 3, status 3, first 1, model 13, client 20, lane 12,
// operations 12.
std::uint64_t packed(const activity_event& e) noexcept {
  constexpr std::uint32_t most = 4095;
  return static_cast<std::uint64_t>(e.what) | static_cast<std::uint64_t>(e.how) << 3 |
         std::uint64_t{e.first} << 6 | std::uint64_t{e.model & 0x1fff} << 7 |
         std::uint64_t{e.client & 0xfffff} << 20 | std::uint64_t{std::min(e.lane, most)} << 40 |
         std::uint64_t{std::min(e.operations, most)} << 52;
}

void unpack(activity_event& e, std::uint64_t bits) noexcept {
  e.what = static_cast<activity_event::kind>(bits & 7);
  e.how = static_cast<gsched::request_status>(bits >> 3 & 7);
  e.first = (bits >> 6 & 1) != 0;
  e.model = static_cast<std::uint32_t>(bits >> 7 & 0x1fff);
  e.client = static_cast<std::uint32_t>(bits >> 20 & 0xfffff);
  e.lane = static_cast<std::uint32_t>(bits >> 40 & 0xfff);
  e.operations = static_cast<std::uint32_t>(bits >> 52);
}

activity_event of(const gsched::request_record& r, activity_event::kind what,
                  std::int64_t at_ns) noexcept {
  activity_event e;
  e.at_ns = at_ns;
  e.what = what;
  e.model = r.model;
  e.client = r.client;
  e.request = index(r.id);
  return e;
}

} // namespace

activity::activity(std::size_t events) : slots_(events == 0 ? 0 : std::bit_ceil(events)) {}

void activity::arrived(const gsched::request_record& r, std::int64_t at_ns) noexcept {
  put(of(r, activity_event::kind::arrived, at_ns));
}
void activity::submitted(const gsched::request_record& r, const gsched::segment& s,
                         gsched::duration, std::int64_t at_ns) noexcept {
  activity_event e = of(r, activity_event::kind::submitted, at_ns);
  e.first = r.segments == 1;
  e.lane = static_cast<std::uint32_t>(index(s.lane));
  e.operations = static_cast<std::uint32_t>(std::min<std::size_t>(s.operations.size(), 4095));
  e.segment = index(s.id);
  put(e);
}
void activity::segment_ended(const gsched::request_record& r, gsched::segment_id id,
                             std::int64_t at_ns) noexcept {
  activity_event e = of(r, activity_event::kind::segment_ended, at_ns);
  e.segment = index(id);
  put(e);
}
void activity::ended(const gsched::request_record& r, gsched::request_status how,
                     std::int64_t at_ns) noexcept {
  activity_event e = of(r, activity_event::kind::ended, at_ns);
  e.how = how;
  put(e);
}
void activity::preempting(std::int64_t at_ns) noexcept {
  put({.at_ns = at_ns, .what = activity_event::kind::preempting});
}
void activity::restored(std::int64_t at_ns) noexcept {
  put({.at_ns = at_ns, .what = activity_event::kind::restored});
}

void activity::put(const activity_event& e) noexcept {
  if (slots_.empty()) return;
  const std::uint64_t n = next_.load(sync::relaxed); // unordered: written by this thread alone
  slot& to = slots_[n & (slots_.size() - 1)];
  // [E1] release -> [E1] acquire in last: who reads a word of event n has to see next_ >= n
  to.words[0].store(static_cast<std::uint64_t>(e.at_ns), sync::release);
  to.words[1].store(e.request, sync::release);
  to.words[2].store(e.segment, sync::release);
  to.words[3].store(packed(e), sync::release);
  next_.store(n + 1, sync::release); // [E2] release -> [E2] acquire in last: publishes event n
}

std::vector<activity_event> activity::last(std::size_t most) const {
  std::vector<activity_event> out;
  if (slots_.empty()) return out;
  const std::uint64_t end = next_.load(sync::acquire); // [E2] acquire <- [E2] release in put
  const std::uint64_t n = std::min<std::uint64_t>({end, most, slots_.size()});
  out.resize(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const slot& from = slots_[(end - n + i) & (slots_.size() - 1)];
    activity_event& to = out[i];
    to.at_ns = static_cast<std::int64_t>(from.words[0].load(sync::acquire)); // [E1] as below
    to.request = from.words[1].load(sync::acquire);
    to.segment = from.words[2].load(sync::acquire);
    unpack(to, from.words[3].load(sync::acquire)); // [E1] acquire <- [E1] release in put
  }
  // What was overwritten meanwhile, or may be in parts, is left out.
  const std::uint64_t now = next_.load(sync::relaxed); // unordered: [E1] has made it new enough
  const std::uint64_t first_whole = now >= slots_.size() ? now - slots_.size() + 1 : 0;
  if (first_whole > end - n)
    out.erase(out.begin(),
              out.begin() + static_cast<std::ptrdiff_t>(std::min(first_whole - (end - n), n)));
  return out;
}

void activity::name_model(std::uint32_t model, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (names_.models.size() <= model) names_.models.resize(model + 1);
  names_.models[model] = name;
}

void activity::name_client(std::uint32_t client, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (names_.clients.size() <= client) names_.clients.resize(client + 1);
  names_.clients[client] = name;
}

const std::string& activity::names::model(std::uint32_t i) const noexcept {
  static const std::string none;
  return i < models.size() ? models[i] : none;
}

const std::string& activity::names::client(std::uint32_t i) const noexcept {
  static const std::string channel = "channel";
  return i < clients.size() && !clients[i].empty() ? clients[i] : channel;
}

activity::names activity::known() const {
  const std::lock_guard lock(mutex_);
  return names_;
}

} // namespace gsched_server
