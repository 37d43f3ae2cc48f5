// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/task.hpp>
#include <gsched/server/model.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// A tensor of a model, of a fixed shape.
struct adaptor_tensor {
  std::string name;
  std::string datatype; ///< of the Open Inference Protocol: "FP32", "INT64", ..., but not "BYTES"
  std::vector<std::int64_t> shape;

  bool operator==(const adaptor_tensor&) const = default;
  /// Of one element; 0 for a datatype that is not known.
  [[nodiscard]] std::uint64_t element_bytes() const noexcept;
  /// Errors   bad_option: an unknown datatype, a dimension below 1, too many elements.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// What a model takes and gives.
struct adaptor_signature {
  std::vector<adaptor_tensor> inputs, outputs;

  bool operator==(const adaptor_signature&) const = default;
};

/// The argument of an adaptor's init: describes the device, and takes the adaptor's programs.
class adaptor_context {
public:
  std::string device;          ///< its name, such as "sim:h200" or "cuda:0"
  std::optional<int> gpu{};    ///< CUDA's number of it; unset for a device that is no GPU
  std::uint32_t instances = 1; ///< requests that run at once: init adds a program for each
  std::string parameters{};    ///< text of the user's, for the adaptor alone

  /// The program of the next instance, in place until no request uses it any more. All have the
  /// same operations.
  const program& add(program p) {
    auto own = std::make_shared<program>(std::move(p));
    program* const at = own.get();
    add(*at, std::move(own));
    return *at;
  }
  /// One that `keep` owns, with what else it needs: the host() of a cuda::program.
  void add(program& p, std::shared_ptr<void> keep) { added_.push_back({&p, std::move(keep)}); }

  /// For the host: what was added.
  [[nodiscard]] std::vector<model_instance> take() { return std::exchange(added_, {}); }

private:
  std::vector<model_instance> added_;
};

/// The tensors of a request, in place until its end: the client's own memory where that is
/// possible.
class adaptor_request {
public:
  /// Inputs, and outputs behind them, without gaps. `payload` has their size.
  adaptor_request(const adaptor_signature& of, std::span<std::byte> payload) noexcept
      : of_(&of), payload_(payload) {}
  /// Each on its own.
  adaptor_request(const adaptor_signature& of, std::span<const std::span<const std::byte>> inputs,
                  std::span<const std::span<std::byte>> outputs) noexcept
      : of_(&of), inputs_(inputs), outputs_(outputs), apart_(true) {}

  [[nodiscard]] const adaptor_signature& signature() const noexcept { return *of_; }
  /// Errors   bad_option for a number that the signature does not have.
  [[nodiscard]] std::span<const std::byte> input(std::size_t i) const;
  [[nodiscard]] std::span<std::byte> output(std::size_t i) const;
  /// As elements.
  /// Errors   bad_option: another size, or memory that is not aligned for T, as a client has it.
  template <class T>
  [[nodiscard]] std::span<const T> input(std::size_t i) const {
    return as<const T>(input(i), of_->inputs[i]);
  }
  template <class T>
  [[nodiscard]] std::span<T> output(std::size_t i) const {
    return as<T>(output(i), of_->outputs[i]);
  }

private:
  static void check(std::size_t i, const std::vector<adaptor_tensor>& all, const char* what);
  [[nodiscard]] static std::size_t before(std::size_t i, const std::vector<adaptor_tensor>& all);
  template <class T, class Bytes>
  [[nodiscard]] static std::span<T> as(Bytes bytes, const adaptor_tensor& t);

  const adaptor_signature* of_;
  std::span<std::byte> payload_{};
  std::span<const std::span<const std::byte>> inputs_{};
  std::span<const std::span<std::byte>> outputs_{};
  bool apart_ = false;
};

/// A model of a user's own: weights, buffers and programs that are made once for a device, and a
/// coroutine for each request. It is compiled into a shared library that a server loads
/// (adaptor_library).
///
///     class scale final : public gsched::adaptor {
///       gsched::adaptor_signature signature() const override { return {{...}, {...}}; }
///       void init(gsched::adaptor_context& context) override { context.add(...); }
///       gsched::task run(gsched::job_context& job, gsched::adaptor_request& request) override {
///         job.launch(program_of(job.instance));
///         co_await job.synchronize();
///         ...
///       }
///     };
///     GSCHED_ADAPTOR(scale)
///
/// An object is made for each device, and one more that is only asked for its signature.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 4.2 and 5.1, doi:10.1145/3600006.3613163.
/// Differs  the adaptor says what its tensors are; a request has them apart, and not one buffer.
/// Errors   an exception of init refuses the model; one of run ends the request as failed.
/// Threads  constructor, signature, init: the one that adds the model, which may not be that of the
///          destructor. run: that of the device's server, which serves nothing else while run
///          computes on the host.
class adaptor {
public:
  adaptor() = default;
  adaptor(const adaptor&) = delete;
  adaptor& operator=(const adaptor&) = delete;
  virtual ~adaptor() = default;

  /// The same each time.
  [[nodiscard]] virtual adaptor_signature signature() const = 0;
  /// Once, before the first request.
  virtual void init(adaptor_context& context) = 0;
  /// The body of a request's job, on instance job.instance. The request is in place until the task
  /// has ended or is destroyed.
  [[nodiscard]] virtual task run(job_context& job, adaptor_request& request) = 0;
};

// The interface of the library ------------------------------------------------------------------

/// Raised when a library that was built before would be called wrongly.
inline constexpr std::uint32_t adaptor_interface = 1;

#define GSCHED_ADAPTOR_TEXT_OF(x) #x
#define GSCHED_ADAPTOR_TEXT(x) GSCHED_ADAPTOR_TEXT_OF(x)
#if defined(_LIBCPP_VERSION)
#define GSCHED_ADAPTOR_LIBRARY "libc++ " GSCHED_ADAPTOR_TEXT(_LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_USE_CXX11_ABI)
#define GSCHED_ADAPTOR_LIBRARY "libstdc++ cxx11=" GSCHED_ADAPTOR_TEXT(_GLIBCXX_USE_CXX11_ABI)
#else
#define GSCHED_ADAPTOR_LIBRARY "another library"
#endif
#if defined(__clang__)
#define GSCHED_ADAPTOR_COMPILER "clang "
#else
#define GSCHED_ADAPTOR_COMPILER "gcc "
#endif

/// What compiler and standard library make of the same headers.
inline constexpr const char* adaptor_abi =
    GSCHED_ADAPTOR_COMPILER GSCHED_ADAPTOR_TEXT(__GXX_ABI_VERSION) " " GSCHED_ADAPTOR_LIBRARY;

/// The sizes of what both sides touch: they differ where the headers do.
using adaptor_sizes = std::array<std::uint32_t, 6>;
[[nodiscard]] constexpr adaptor_sizes sizes_of_adaptor() noexcept {
  return {sizeof(job_context), sizeof(task::promise_type), sizeof(program),
          sizeof(operation),   sizeof(adaptor_request),    sizeof(adaptor_context)};
}

/// What the function `gsched_adaptor` of a library returns. Its beginning never changes.
struct adaptor_entry {
  std::array<char, 8> mark{'g', 's', 'a', 'd', 'a', 'p', 't', '\n'};
  std::uint32_t version = adaptor_interface;
  std::uint32_t reserved = 0;
  const char* abi = adaptor_abi;
  const char* type = nullptr;
  adaptor* (*make)() = nullptr; ///< by new; throws what the constructor does
  adaptor_sizes sizes = sizes_of_adaptor();
};

/// Once in a library, outside of namespaces: the adaptor that it holds, a type with a default
/// constructor.
#define GSCHED_ADAPTOR(adaptor_type)                                                               \
  extern "C" [[gnu::visibility("default")]] const ::gsched::adaptor_entry*                         \
  gsched_adaptor() noexcept {                                                                      \
    static constexpr ::gsched::adaptor_entry entry{                                                \
        .type = #adaptor_type, .make = []() -> ::gsched::adaptor* { return new adaptor_type(); }}; \
    return &entry;                                                                                 \
  }

// Implementation ------------------------------------------------------------------------------

inline std::uint64_t adaptor_tensor::element_bytes() const noexcept {
  struct known {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr std::array<known, 13> all{{{"BOOL", 1},
                                              {"UINT8", 1},
                                              {"UINT16", 2},
                                              {"UINT32", 4},
                                              {"UINT64", 8},
                                              {"INT8", 1},
                                              {"INT16", 2},
                                              {"INT32", 4},
                                              {"INT64", 8},
                                              {"FP16", 2},
                                              {"BF16", 2},
                                              {"FP32", 4},
                                              {"FP64", 8}}};
  for (const known& each : all)
    if (each.name == datatype) return each.bytes;
  return 0;
}

inline std::uint64_t adaptor_tensor::bytes() const {
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  std::uint64_t n = element_bytes();
  if (n == 0)
    throw error(errc::bad_option, "tensor " + name + ": datatype " + datatype +
                                      ", expected BOOL, UINT8, ... or FP64");
  for (const std::int64_t d : shape) {
    if (d < 1 || static_cast<std::uint64_t>(d) > most / n)
      throw error(errc::bad_option, "tensor " + name + ": dimension " + std::to_string(d) +
                                        ", expected one of 1 or more, and fewer elements");
    n *= static_cast<std::uint64_t>(d);
  }
  return n;
}

inline void adaptor_request::check(std::size_t i, const std::vector<adaptor_tensor>& all,
                                   const char* what) {
  if (i >= all.size())
    throw error(errc::bad_option, std::string(what) + " " + std::to_string(i) +
                                      ", expected one of " + std::to_string(all.size()));
}

inline std::size_t adaptor_request::before(std::size_t i, const std::vector<adaptor_tensor>& all) {
  std::size_t n = 0;
  for (std::size_t k = 0; k < i; ++k) n += all[k].bytes();
  return n;
}

inline std::span<const std::byte> adaptor_request::input(std::size_t i) const {
  check(i, of_->inputs, "input");
  if (apart_) return inputs_[i];
  return payload_.subspan(before(i, of_->inputs), of_->inputs[i].bytes());
}

inline std::span<std::byte> adaptor_request::output(std::size_t i) const {
  check(i, of_->outputs, "output");
  if (apart_) return outputs_[i];
  return payload_.subspan(before(of_->inputs.size(), of_->inputs) + before(i, of_->outputs),
                          of_->outputs[i].bytes());
}

template <class T, class Bytes>
std::span<T> adaptor_request::as(Bytes bytes, const adaptor_tensor& t) {
  if (t.element_bytes() != sizeof(T))
    throw error(errc::bad_option, "tensor " + t.name + ": elements of " +
                                      std::to_string(sizeof(T)) + " bytes, expected " + t.datatype);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0)
    throw error(errc::bad_option, "tensor " + t.name + ": not aligned, expected a multiple of " +
                                      std::to_string(alignof(T)) + " bytes");
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

} // namespace gsched
