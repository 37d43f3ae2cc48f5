// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/tensor.hpp"
#include "gsched_server/settings/address.hpp"
#include "gsched_server/settings/tls_files.hpp"

#include "common/cli/device_option.hpp"

#include <gsched/core/time.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/server/adaptor_library.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gsched_server {

/// The largest limit of a model's slow-down.
inline constexpr double most_slow_down = 1000;

/// What one tenant gets.
struct tenant_limits {
  double weight = 1;          ///< share of the device, under policies that share by weight
  std::uint32_t requests = 0; ///< not ended, at once; 0: as many as the server takes
  double rate = 0;            ///< requests a second; 0: any
  double burst = 64;          ///< requests at once, where there is a rate
  bool real_time = true;      ///< whether it may ask for that

  bool operator==(const tenant_limits&) const = default;
};
/// The tenant of requests that name none, or one that the configuration does not have.
inline constexpr const char* default_tenant = "default";

/// A library whose adaptor runs a model.
struct chosen_adaptor {
  std::shared_ptr<const gsched::adaptor_library> library; ///< null: there is none
  std::string parameters;                                 ///< for the adaptor

  /// A library stays as it is in a process.
  bool operator==(const chosen_adaptor& o) const {
    return (library == nullptr) == (o.library == nullptr) &&
           (library == nullptr || library->file() == o.library->file()) &&
           parameters == o.parameters;
  }
};

/// A model to serve, with its profile, or with an adaptor.
struct model_plan {
  std::string name;
  gsched::profile profile;       ///< with an adaptor: the bytes of inputs and outputs alone
  std::filesystem::path kernels; ///< the file of a profile of its kernels; empty: not known
  chosen_adaptor adaptor;
  std::uint32_t instances = 8; ///< of its requests run at once, on each device
  std::vector<tensor_spec> inputs, outputs;
  std::vector<std::uint32_t> devices; ///< that hold it, of settings::devices, rising
  double slow_down_limit = gsched::corun_limit::none; ///< beside the others: 1.2 allows 20%

  bool operator==(const model_plan&) const = default;
};

/// What a running server can take anew.
struct changeable {
  std::uint32_t requests = 1024; ///< not ended, at once
  gsched::duration drain = std::chrono::seconds{30};
  gsched::duration notice{}; ///< before the drain, in which it says so and still takes requests
  std::map<std::string, tenant_limits> tenants; ///< with default_tenant
  std::vector<model_plan> models;               ///< by rising name
};

/// The command line and the configuration, checked.
struct settings : changeable {
  std::vector<common::device_choice> devices; ///< one or more
  std::string policy = "srpt+deficit";
  std::uint32_t real_time_lanes = 1;
  gsched::duration spin = std::chrono::microseconds{50}; ///< see gsched::server_options
  double slow_down_limit = gsched::corun_limit::none;    ///< of models without one of their own
  std::string slow_downs = "predicted";                  ///< where they come from
  std::string slow_downs_at; ///< the option, or the place in the configuration, that says so
  /// Which models do not run side by side, on each device; none: all do. Of neighbour_rules().
  std::vector<std::shared_ptr<const gsched::corun_rule>> apart;
  address grpc, http;
  std::optional<tls_files> tls; ///< at TCP addresses; read when the server starts
  address agent;                ///< of HAProxy's agent checks
  std::string log;              ///< a file's path, or "-"; empty: none
  bool in_folder = false;       ///< one of these is in socket_folder()
  std::string socket;           ///< of the channel; empty: none. See socket_of
  std::uint64_t request_bytes = std::uint64_t{64} << 20;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30; ///< of gRPC
  std::uint32_t http_threads = 32;
  std::uint32_t trace_events = 1u << 17; ///< of each device, that are kept for traces; 0: none
  bool check = false;

  /// Where the channel of a device listens: `socket` if there is one device, otherwise with ".N"
  /// behind it.
  [[nodiscard]] std::string socket_of(std::uint32_t device) const;
  /// The names of the devices, between commas.
  [[nodiscard]] std::string device_names() const;
  /// Whether a model has a limit.
  [[nodiscard]] bool limits_slow_downs() const noexcept;
  /// The first of the settings in which another one differs, of those that need a new start; empty
  /// if none does.
  [[nodiscard]] std::string fixed_difference(const settings& other) const;
};

/// Reads the command line, the configuration that it names, and the models' profiles. Nothing when
/// it asked for help, which is then printed on stdout.
/// Errors   gsched::error with one line: what, where, what was expected.
[[nodiscard]] std::optional<settings> read_settings(int argc, const char* const* argv);

} // namespace gsched_server
