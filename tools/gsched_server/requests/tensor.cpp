// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/tensor.hpp"

#include "gsched_server/requests/answer.hpp"

#include "common/cli/option_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace gsched_server {

namespace {

using kind = datatype::kind;
constexpr std::array<datatype, 13> types{{{"BOOL", 1, kind::boolean},
                                          {"UINT8", 1, kind::uint},
                                          {"UINT16", 2, kind::uint},
                                          {"UINT32", 4, kind::uint},
                                          {"UINT64", 8, kind::uint},
                                          {"INT8", 1, kind::sint},
                                          {"INT16", 2, kind::sint},
                                          {"INT32", 4, kind::sint},
                                          {"INT64", 8, kind::sint},
                                          {"FP16", 2, kind::half},
                                          {"BF16", 2, kind::half},
                                          {"FP32", 4, kind::real},
                                          {"FP64", 8, kind::real}}};

[[noreturn]] void refuse_input(std::string_view name, const std::string& wrong) {
  throw refusal(outcome::invalid, fmt::format("input {}: {}", common::in_quotes(name), wrong));
}

std::string names_of(std::span<const tensor_spec> specs) {
  std::vector<std::string_view> names;
  for (const tensor_spec& s : specs) names.push_back(s.name);
  return names.empty() ? "none" : common::joined_by_or(names);
}

} // namespace

const datatype* find_datatype(std::string_view name) noexcept {
  for (const datatype& t : types)
    if (t.name == name) return &t;
  return nullptr;
}

const std::string& datatype_names() {
  static const std::string all = [] {
    std::vector<std::string_view> names;
    for (const datatype& t : types) names.push_back(t.name);
    return common::joined_by_or(names);
  }();
  return all;
}

std::uint64_t tensor_spec::elements() const noexcept {
  std::uint64_t n = 1;
  for (const std::int64_t d : shape) n *= static_cast<std::uint64_t>(d);
  return n;
}

std::uint64_t bytes_of(std::span<const tensor_spec> all) noexcept {
  std::uint64_t sum = 0;
  for (const tensor_spec& t : all) sum += t.bytes();
  return sum;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t most = 16;
  return fmt::format("[{}{}]", fmt::join(shape.first(std::min(shape.size(), most)), ","),
                     shape.size() > most ? ",..." : "");
}

const tensor_spec& spec_of(const given_tensor& given, std::span<const tensor_spec> specs) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const tensor_spec& s) { return s.name == given.name; });
  if (found == specs.end()) refuse_input(given.name, "unknown, expected " + names_of(specs));
  if (given.datatype != found->type->name)
    refuse_input(given.name, fmt::format("datatype {}, expected {}",
                                         common::in_quotes(given.datatype), found->type->name));
  if (!std::equal(given.shape.begin(), given.shape.end(), found->shape.begin(), found->shape.end()))
    refuse_input(given.name, fmt::format("shape {}, expected {}", shape_text(given.shape),
                                         shape_text(found->shape)));
  return *found;
}

std::vector<std::span<const std::byte>> in_order(std::span<const given_tensor> given,
                                                 std::span<const tensor_spec> specs) {
  std::vector<std::span<const std::byte>> all(specs.size());
  std::vector<bool> seen(specs.size());
  for (const given_tensor& g : given) {
    const tensor_spec& s = spec_of(g, specs);
    const auto at = static_cast<std::size_t>(&s - specs.data());
    if (seen[at]) refuse_input(g.name, "there twice, expected once");
    if (g.bytes.size() != s.bytes())
      refuse_input(g.name, fmt::format("{} bytes, expected {}", g.bytes.size(), s.bytes()));
    seen[at] = true;
    all[at] = g.bytes;
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!seen[i]) refuse_input(specs[i].name, "missing, expected it");
  return all;
}

} // namespace gsched_server
