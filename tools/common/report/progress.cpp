// SPDX-License-Identifier: Apache-2.0
#include "common/report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace common {

progress_bar::progress_bar(std::string label, std::uint64_t total, bool enabled)
    : label_(std::move(label)), total_(std::max<std::uint64_t>(total, 1)), enabled_(enabled) {
  update(0);
}

progress_bar::~progress_bar() {
  if (enabled_) std::fputs("\r\x1b[K", stderr);
}

void progress_bar::update(std::uint64_t done) {
  if (!enabled_) return;
  const int percent = static_cast<int>(std::min(done, total_) * 100 / total_);
  if (percent == drawn_) return;
  drawn_ = percent;
  const auto filled = static_cast<std::size_t>(percent) * 40 / 100;
  fmt::print(stderr, "\r{:<24} [{:#<{}}{:.<{}}] {:3}%", label_, "", filled, "", 40 - filled,
             percent);
  std::fflush(stderr);
}

shared_bar::shared_bar(std::string label, std::size_t runs, std::uint64_t total, bool enabled)
    : enabled_(enabled), done_(runs), bar_(std::move(label), runs * total, enabled) {}

void shared_bar::update(std::size_t run, std::uint64_t done) {
  if (!enabled_) return;
  done_[run].store(done, std::memory_order_relaxed); // only its value counts
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return; // another thread draws, and this one comes again
  std::uint64_t all = 0;
  for (const auto& each : done_) all += each.load(std::memory_order_relaxed);
  bar_.update(all);
}

} // namespace common
