// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>

#include <cstddef>
#include <string>

namespace gsched::testing {

/// A kernel that writes to an invalid address.
[[nodiscard]] cuda::program make_faulty(std::string name);
/// A kernel that runs until *stop, in pinned memory, is not zero.
[[nodiscard]] cuda::program make_endless(std::string name, const int* stop);
/// The same, with more blocks than fit on a GPU.
[[nodiscard]] cuda::program make_endless_everywhere(std::string name, const int* stop);

/// A chain of such kernels, which a lane can hold between them.
[[nodiscard]] cuda::program make_endless_chain(std::string name, std::size_t n, const int* stop);

} // namespace gsched::testing
