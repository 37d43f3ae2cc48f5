// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refusal.hpp"

#include <gsched/gsched_c.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace gsched::abi {

/// A caller's struct as this library knows it. What a shorter one lacks is as in `defaults`; what a
/// longer one has beyond must be zero, as it asks for something unknown here.
/// `least` is the struct's size in version 1.
template <class T>
[[nodiscard]] T read_struct(const T* from, const char* name, T defaults = {},
                            std::size_t least = sizeof(T)) {
  if (from == nullptr) throw refusal(GSCHED_BAD_ARGUMENT, std::string(name) + ": NULL");
  std::uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < least || size > 65536)
    throw refusal(GSCHED_BAD_ARGUMENT, std::string(name) + ".size: " + std::to_string(size) +
                                           ", expected " + std::to_string(sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b != 0; }))
    throw refusal(GSCHED_BAD_ARGUMENT,
                  std::string(name) + ": has fields that this version does not know, expected 0");
  std::memcpy(&defaults, from, std::min<std::size_t>(size, sizeof(T)));
  return defaults;
}

/// One of an array of structs, whose stride is the size of the first, which all others have too.
/// `each` names one in errors.
template <class T>
[[nodiscard]] T element_of(const T* first, std::uint32_t i, const char* name, const char* each,
                           std::size_t least = sizeof(T)) {
  const std::size_t stride = first->size;
  const auto* const all = reinterpret_cast<const unsigned char*>(first);
  std::uint32_t size = 0;
  std::memcpy(&size, all + i * stride, sizeof size);
  if (size != stride) // else its end would be beyond its place
    throw refusal(GSCHED_BAD_ARGUMENT, std::string(name) + ".size: " + std::to_string(size) +
                                           " of " + each + " " + std::to_string(i) + ", expected " +
                                           std::to_string(stride) + " as of the first");
  return read_struct(reinterpret_cast<const T*>(all + i * stride), name, T{}, least);
}

/// One of a model's instances.
[[nodiscard]] inline gsched_instance instance_of(const gsched_model& m, std::uint32_t i) {
  return element_of(m.instances, i, "gsched_instance", "instance");
}

/// The caller has set `size`, and gets that much; what this library does not know becomes zero.
template <class T>
void write_struct(T* to, const char* name, T what, std::size_t least = sizeof(T)) {
  if (to == nullptr) throw refusal(GSCHED_BAD_ARGUMENT, std::string(name) + ": NULL");
  std::uint32_t size = 0;
  std::memcpy(&size, to, sizeof size);
  if (size < least || size > 65536)
    throw refusal(GSCHED_BAD_ARGUMENT, std::string(name) + ".size: " + std::to_string(size) +
                                           ", expected " + std::to_string(sizeof(T)));
  std::memcpy(&what, &size, sizeof size);
  std::memcpy(to, &what, std::min<std::size_t>(size, sizeof(T)));
  if (size > sizeof(T))
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
}

} // namespace gsched::abi
