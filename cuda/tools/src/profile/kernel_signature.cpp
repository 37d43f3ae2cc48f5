// SPDX-License-Identifier: Apache-2.0
#include "profile/kernel_signature.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace gsched::cuda {

namespace {

/// The contents of the last pair of parentheses; empty if the name does not end with one.
std::string_view parameter_list(std::string_view name) {
  if (!name.ends_with(')')) return {};
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    depth += name[i] == ')' ? 1 : name[i] == '(' ? -1 : 0;
    if (depth == 0) return name.substr(i + 1, name.size() - i - 2);
  }
  return {};
}

/// Splits a list at the commas outside of brackets. Empty if the brackets do not match, as with an
/// operator< in a template argument.
std::vector<std::string_view> cut(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0) return {};
    if (c != ',' || depth != 0) continue;
    parts.push_back(list.substr(from, i - from));
    from = i + 1;
  }
  if (depth != 0) return {};
  parts.push_back(list.substr(from));
  for (std::string_view& p : parts)
    if (p.starts_with(' ')) p.remove_prefix(1);
  return parts;
}

parameter_kind kind_of(std::string_view type) {
  static constexpr std::array<std::string_view, 16> numbers{"bool",        "char",
                                                            "signed char", "unsigned char",
                                                            "short",       "unsigned short",
                                                            "int",         "unsigned int",
                                                            "long",        "unsigned long",
                                                            "float",       "double",
                                                            "long long",   "unsigned long long",
                                                            "__half",      "__nv_bfloat16"};
  if (std::find(numbers.begin(), numbers.end(), type) != numbers.end())
    return parameter_kind::scalar;
  if (!type.ends_with('*')) return parameter_kind::unknown;
  type.remove_suffix(1);
  const bool is_const = type.ends_with(" const");
  if (is_const) type.remove_suffix(6);
  if (type.ends_with(" volatile")) return parameter_kind::pointer;
  if (type.ends_with('*')) return parameter_kind::pointer_to_pointer;
  return is_const ? parameter_kind::pointer_to_const : parameter_kind::pointer;
}

} // namespace

std::string demangled(const std::string& symbol) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed), std::free);
  return failed == 0 && plain ? plain.get() : symbol;
}

std::vector<parameter_kind> parameters_of(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return {};
  const std::string name = demangled(symbol);
  const std::string_view list = parameter_list(name);
  if (list.empty()) return {};
  std::vector<parameter_kind> kinds;
  for (const std::string_view p : cut(list)) kinds.push_back(kind_of(p));
  return kinds;
}

} // namespace gsched::cuda
