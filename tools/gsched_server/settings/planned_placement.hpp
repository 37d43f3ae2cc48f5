// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gsched_server {

/// Which devices hold which models, by what `plan --json` writes: GPU k of the plan is device k. A
/// server shares a device in time: it makes no partitions, and what a plan promises for them does
/// not hold (partitions()).
class planned_placement {
public:
  /// Errors   gsched::error (io, bad_profile) with one line: a file of another kind, with several
  ///          plans or without one, or a plan of more GPUs than there are devices.
  planned_placement(const std::filesystem::path& file, std::size_t devices);

  /// `model` is a name of the plan, or that and a batch size, as in "resnet50_b8".
  [[nodiscard]] bool has(std::string_view model) const { return find(model) != places_.end(); }
  /// Rising.
  /// Errors   gsched::error (unknown_name) with one line for a model that the plan does not have.
  [[nodiscard]] std::vector<std::uint32_t> devices_of(std::string_view model) const;

  /// The partitions of the plan that are not whole GPUs, as "3 partitions of 16 to 60 SMs"; empty
  /// if there are none.
  [[nodiscard]] std::string partitions() const;

private:
  using places = std::map<std::string, std::vector<std::uint32_t>, std::less<>>;
  [[nodiscard]] places::const_iterator find(std::string_view model) const;

  std::string file_;
  places places_;
  std::vector<std::uint64_t> sms_; ///< of partitions that are not whole GPUs
};

} // namespace gsched_server
