// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>

#include <cstddef>
#include <string>

namespace gsched::testing {

/// A kernel that writes where no memory is.
[[nodiscard]] cuda::program make_faulty(std::string name);
/// A kernel that ends once *stop, in pinned memory, is not zero.
[[nodiscard]] cuda::program make_endless(std::string name, const int* stop);
/// The same, with as many blocks as a GPU can hold and more.
[[nodiscard]] cuda::program make_endless_everywhere(std::string name, const int* stop);

/// So many of the first, one after the other: the program can stand between them.
[[nodiscard]] cuda::program make_endless_chain(std::string name, std::size_t n, const int* stop);

} // namespace gsched::testing
