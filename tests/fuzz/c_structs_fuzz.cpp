// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "model_check.hpp"
#include "settings.hpp"
#include "structs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace {

using namespace gsched;
using fuzz::require;

bool is_one_line(std::string_view line) {
  return !line.empty() && line.size() < 1000 && line.find('\n') == line.npos &&
         line.find("000000000000000000000000") == line.npos;
}
bool says_what_was_expected(std::string_view line) {
  return is_one_line(line) && line.find("expected ") != line.npos;
}

/// Bytes as a caller's struct: as long as its size says, which is the caller's promise, and no
/// longer, so that a sanitizer sees what is read beyond.
class as_told {
public:
  as_told(const std::uint8_t* data, std::size_t size) {
    std::memcpy(&told_, data, sizeof told_);
    const std::size_t n = told_ >= 8 && told_ <= 65536 ? told_ : 8;
    bytes_ = std::make_unique<std::uint8_t[]>(n);
    std::copy_n(data, std::min(n, size), bytes_.get());
  }
  template <class T>
  [[nodiscard]] T* as() noexcept {
    return reinterpret_cast<T*>(bytes_.get());
  }
  [[nodiscard]] std::uint32_t told() const noexcept { return told_; }

private:
  std::uint32_t told_ = 0;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

/// Calls f, which may refuse.
template <class F>
void refused_in_one_line(F f, bool (*is_good)(std::string_view) = says_what_was_expected) {
  try {
    f();
  } catch (const abi::refusal& e) {
    require(is_good(e.what()));
  } catch (const error& e) {
    require(is_good(e.what()));
  }
}

/// What was read has the caller's bytes as far as these go, and then the defaults'.
template <class T>
void read_as_told(as_told& asked, const T& defaults, std::size_t least) {
  refused_in_one_line([&] {
    const T got = abi::read_struct(asked.as<T>(), "struct", defaults, least);
    const std::size_t own = std::min<std::size_t>(asked.told(), sizeof(T));
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&got);
    const auto* const rest = reinterpret_cast<const std::uint8_t*>(&defaults);
    require(asked.told() >= least && std::equal(bytes, bytes + own, asked.as<std::uint8_t>()));
    require(std::equal(bytes + own, bytes + sizeof(T), rest + own));
  });
}

void read_server_options(as_told& asked, std::uint8_t choice) {
  static constexpr std::array policies{"fifo",   "srpt+deficit", "boost:0.5", "direct",
                                       "single", "nosuch",       "boost:x",   ""};
  refused_in_one_line([&] {
    gsched_server_options o =
        abi::read_struct(asked.as<gsched_server_options>(), "gsched_server_options",
                         abi::default_options(), sizeof(std::uint32_t));
    o.policy = policies[choice % policies.size()]; // a pointer cannot come from bytes
    const std::array<gsched_slow_down, 2> pairs{{{"a", "b", o.apart_wait_us}, {"b", nullptr, 1}}};
    o.slow_downs = choice % 2 == 0 ? pairs.data() : nullptr;
    o.slow_downs_count %= 3;
    const std::array<gsched_slow_down_limit, 2> limits{
        {{"a", o.slow_down_limit + o.tolerance}, {choice % 8 < 4 ? "b" : nullptr, 2}}};
    o.slow_down_limits = choice % 4 < 2 ? limits.data() : nullptr;
    o.slow_down_limits_count %= 3;
    const abi::settings s = abi::settings_of(o);
    static_cast<void>(s.dispatch.checked());
    require(s.dispatch.lanes >= 1 && s.dispatch.quantum > duration::zero() && s.levels <= 8);
  });
  try {
    abi::write_struct(asked.as<gsched_server_options>(), "gsched_server_options",
                      abi::default_options(), sizeof(std::uint32_t));
    std::uint32_t kept = 0;
    std::memcpy(&kept, asked.as<std::uint8_t>(), sizeof kept);
    require(kept == asked.told());
  } catch (const abi::refusal&) {
  }
}

/// A model with so many instances of any size; the sizes of others than the first may differ.
void model(as_told& asked, const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t first_model = offsetof(gsched_model, excludes);
  read_as_told(asked, gsched_model{}, first_model);
  refused_in_one_line(
      [&] {
        gsched_model m =
            abi::read_struct(asked.as<gsched_model>(), "gsched_model", gsched_model{}, first_model);
        const auto byte = [&](std::size_t i) { return i < size ? data[i] : std::uint8_t{0}; };
        // Pointers cannot come from bytes, nor counts of what they point to.
        m.instances_count %= 5;
        m.inputs %= 3;
        m.outputs %= 3;
        m.durations_count %= 4;
        m.excludes_count %= 3;
        const std::uint8_t which = byte(6);
        const std::size_t stride = 4u * byte(7);
        const std::size_t bytes = std::max<std::size_t>(m.instances_count * stride, 8);
        const auto all = std::make_unique<std::uint8_t[]>(bytes);
        const std::array<gsched_buffer, 3> buffers{
            {{all.get(), byte(8)}, {all.get(), byte(9)}, {nullptr, 1}}};
        std::vector<double> durations(m.durations_count, byte(8) - 5.0);
        std::vector<std::uint32_t> excludes(m.excludes_count);
        for (std::size_t i = 0; i < m.instances_count; ++i) {
          gsched_instance one{};
          one.size = static_cast<std::uint32_t>(i > 0 && (which & 1) ? 4u * byte(10 + i) : stride);
          one.graph = which & 2 ? nullptr : all.get();
          one.inputs = which & 4 ? nullptr : buffers.data();
          one.outputs = buffers.data() + (which & 8 ? 0 : 1);
          std::memcpy(all.get() + i * stride, &one,
                      std::min({sizeof one, stride, bytes - i * stride}));
          for (std::size_t b = sizeof one; b < stride; ++b)
            all[i * stride + b] = which & 16 ? byte(20 + b) : std::uint8_t{0};
        }
        m.instances = which & 32 ? nullptr : reinterpret_cast<const gsched_instance*>(all.get());
        m.name = which & 64 ? nullptr : "model";
        m.durations_us = durations.empty() ? nullptr : durations.data();
        m.excludes = excludes.empty() ? nullptr : excludes.data();
        abi::check_model(m);
        require(m.instances_count > 0 && stride >= sizeof(gsched_instance));
      },
      is_one_line);
}

} // namespace

/// A caller's struct of any size and with any bytes in it either is refused in one line or is read
/// as it stands; options are settings that a dispatcher takes, a model one that can be built.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  as_told asked(data, size);
  switch (data[5] % 4) {
  case 0: read_server_options(asked, data[4]); break;
  case 1: model(asked, data, size); break;
  case 2: read_as_told(asked, gsched_request{}, offsetof(gsched_request, wait_event)); break;
  case 3: {
    gsched_profile_options defaults{};
    defaults.batch = 1;
    read_as_told(asked, defaults, sizeof defaults);
    break;
  }
  }
  return 0;
}
