// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace parts {

/// A bar on stderr that is redrawn as the share done rises; silent if not enabled.
class progress_bar {
public:
  progress_bar(std::string label, std::uint64_t total, bool enabled);
  ~progress_bar(); ///< wipes the line
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  void update(std::uint64_t done);

private:
  std::string label_;
  std::uint64_t total_;
  int drawn_ = -1; ///< percent on the screen
  bool enabled_;
};

} // namespace parts
