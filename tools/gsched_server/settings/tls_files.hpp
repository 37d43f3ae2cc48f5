// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gsched_server {

/// Files of TLS, in PEM.
struct tls_files {
  std::string certificate; ///< with those that it depends on behind it
  std::string key;         ///< of the certificate, without a passphrase
  std::string authority;   ///< whose certificates clients must have; empty: clients need none

  bool operator==(const tls_files&) const = default;
};

} // namespace gsched_server
