// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/task.hpp>
#include <gsched/server/adaptor.hpp>
#include <gsched/server/described_error.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/request_record.hpp>

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A shared library with an adaptor. It stays loaded until the process ends, since what it has made
/// may live so long; a file that is replaced meanwhile is not seen.
///
/// A library on CUDA shares the runtime of the program that loads it, which has to export its
/// symbols (ENABLE_EXPORTS in CMake).
///
/// Errors   gsched::error, one line: io for a file that is no such library; bad_option for one that
///          was built for another version of these headers, or by a compiler with another ABI.
/// Threads  any.
class adaptor_library {
public:
  explicit adaptor_library(std::string file);

  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /// The name of the adaptor's type.
  [[nodiscard]] const char* type() const noexcept { return entry_->type; }
  /// Errors   job_threw for an exception of the constructor.
  [[nodiscard]] std::unique_ptr<adaptor> make() const;

private:
  std::string file_;
  const adaptor_entry* entry_ = nullptr;
};

/// A model of a server that an adaptor runs. Requests have their tensors in their payload: inputs,
/// and outputs behind them, as clients of the channel do; a request whose payload has another size
/// fails.
///
///     const adaptor_library lib("./libscale.so");
///     adaptor_context context; // .device, .instances, ...
///     server.add_model({}, [&] {
///       return std::make_unique<adapted_model>("scale", lib.make(), std::move(context));
///     });
///
/// Threads  as served_model.
class adapted_model : public served_model {
public:
  /// Calls init.
  /// Errors   job_threw for what init throws, other than gsched::error; bad_option for programs
  ///          that are not one for each instance, or that differ.
  adapted_model(std::string called, std::unique_ptr<adaptor> of, adaptor_context&& context)
      : adapted_model(std::move(called), prepare(std::move(of), context)) {}

  [[nodiscard]] const adaptor_signature& signature() const noexcept { return signature_; }
  task run(job_context& job, request_record& r) override;
  std::vector<std::shared_ptr<void>> take_memory() override;

protected:
  /// Where the tensors of a request are.
  [[nodiscard]] virtual adaptor_request tensors_of(request_record& r) const;

private:
  struct prepared {
    std::shared_ptr<adaptor> of;
    std::vector<model_instance> instances;
  };
  adapted_model(std::string called, prepared&& p)
      : served_model(std::move(called), std::move(p.instances)), adaptor_(std::move(p.of)),
        signature_(adaptor_->signature()) {
    for (const adaptor_tensor& t : signature_.inputs) bytes_ += t.bytes();
    for (const adaptor_tensor& t : signature_.outputs) bytes_ += t.bytes();
  }
  [[nodiscard]] static prepared prepare(std::unique_ptr<adaptor> of, adaptor_context& context);

  std::shared_ptr<adaptor> adaptor_; ///< frees what programs use, so after them
  adaptor_signature signature_;
  std::uint64_t bytes_ = 0; ///< of a payload
};

// Implementation ------------------------------------------------------------------------------

inline adaptor_library::adaptor_library(std::string file) : file_(std::move(file)) {
  const auto refuse = [this](errc why, const std::string& what) {
    throw error(why, "adaptor " + file_ + ": " + what +
                         ", expected a shared library with GSCHED_ADAPTOR of this version");
  };
  // A name without a folder would be looked for among the system's libraries.
  const std::string path = file_.find('/') == std::string::npos ? "./" + file_ : file_;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    // Of this thread alone, by POSIX's last issue and by glibc.
    const char* const why = ::dlerror(); // NOLINT(concurrency-mt-unsafe)
    refuse(errc::io, why != nullptr ? why : "cannot be loaded");
  }
  void* const symbol = ::dlsym(library, "gsched_adaptor");
  if (symbol == nullptr) refuse(errc::io, "has no function gsched_adaptor");
  entry_ = reinterpret_cast<const adaptor_entry* (*)()>(symbol)();
  if (entry_ == nullptr || entry_->mark != adaptor_entry{}.mark)
    refuse(errc::io, "its gsched_adaptor is something else");
  if (entry_->version != adaptor_interface)
    refuse(errc::bad_option, "interface " + std::to_string(entry_->version) + ", not " +
                                 std::to_string(adaptor_interface));
  if (std::string(entry_->abi) != adaptor_abi)
    refuse(errc::bad_option, "built by " + std::string(entry_->abi) + ", not " + adaptor_abi);
  if (entry_->sizes != sizes_of_adaptor()) refuse(errc::bad_option, "built with other headers");
}

inline std::unique_ptr<adaptor> adaptor_library::make() const {
  try {
    return std::unique_ptr<adaptor>(entry_->make());
  } catch (...) {
    const described_error why = describe_current_exception();
    throw error(errc::job_threw, "adaptor " + file_ + ": " + type() + ": " + why.line);
  }
}

inline adapted_model::prepared adapted_model::prepare(std::unique_ptr<adaptor> of,
                                                      adaptor_context& context) {
  try {
    of->init(context);
  } catch (...) {
    const described_error why = describe_current_exception();
    throw error(errc::job_threw, "init: " + why.line);
  }
  prepared p{std::move(of), context.take()};
  if (p.instances.size() != context.instances)
    throw error(errc::bad_option, "init: has added " + std::to_string(p.instances.size()) +
                                      " programs, expected one for each of " +
                                      std::to_string(context.instances) + " instances");
  for (const model_instance& i : p.instances)
    if (i.program->size() != p.instances.front().program->size())
      throw error(errc::bad_option, "init: has added programs of different operations, expected "
                                    "the same in all instances");
  return p;
}

inline adaptor_request adapted_model::tensors_of(request_record& r) const {
  if (r.payload.size() != bytes_)
    throw error(errc::bad_option, name + ": a payload of " + std::to_string(r.payload.size()) +
                                      " bytes, expected " + std::to_string(bytes_));
  return {signature_, r.payload};
}

inline task adapted_model::run(job_context& job, request_record& r) {
  adaptor_request tensors = tensors_of(r);
  co_await adaptor_->run(job, tensors);
}

inline std::vector<std::shared_ptr<void>> adapted_model::take_memory() {
  std::vector<std::shared_ptr<void>> all = served_model::take_memory();
  all.push_back(std::exchange(adaptor_, nullptr));
  return all;
}

} // namespace gsched
