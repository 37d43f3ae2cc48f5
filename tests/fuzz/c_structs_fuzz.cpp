// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "settings.hpp"
#include "structs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

/// A caller's options of any size and with any bytes in them either are refused in one line or are
/// settings that a dispatcher takes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  using fuzz::require;
  const auto is_one_line = [](std::string_view line) {
    return line.size() < 1000 && line.find("expected ") != line.npos &&
           line.find('\n') == line.npos && line.find("000000000000000000000000") == line.npos;
  };
  static constexpr std::array policies{"fifo",   "srpt+deficit", "boost:0.5", "direct",
                                       "single", "nosuch",       "boost:x",   ""};
  if (size < 8) return 0;
  // A struct is as long as its size says: the caller's promise.
  std::uint32_t told = 0;
  std::memcpy(&told, data, sizeof told);
  std::vector<std::uint64_t> memory(
      std::max<std::size_t>({told <= 65536 ? told : 0, size, 64}) / 8 + 1);
  std::memcpy(memory.data(), data, size);
  auto* const asked = reinterpret_cast<gsched_server_options*>(memory.data());
  try {
    gsched_server_options o = abi::read_struct(asked, "gsched_server_options",
                                               abi::default_options(), sizeof(std::uint32_t));
    o.policy = policies[data[4] % policies.size()]; // a pointer cannot come from bytes
    const abi::settings s = abi::settings_of(o);
    static_cast<void>(s.dispatch.checked());
    require(s.dispatch.lanes >= 1 && s.dispatch.quantum > duration::zero() && s.levels <= 8);
  } catch (const abi::refusal& e) {
    require(is_one_line(e.what()));
  } catch (const error& e) {
    require(is_one_line(e.what()));
  }
  std::memcpy(memory.data(), &told, sizeof told);
  try {
    abi::write_struct(asked, "gsched_server_options", abi::default_options(),
                      sizeof(std::uint32_t));
    std::uint32_t kept = 0;
    std::memcpy(&kept, memory.data(), sizeof kept);
    require(kept == told);
  } catch (const abi::refusal&) {
  }
  return 0;
}
