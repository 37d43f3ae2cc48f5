// SPDX-License-Identifier: Apache-2.0
#include "parts/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace parts {

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

} // namespace parts
