// SPDX-License-Identifier: Apache-2.0
#include "profile/kernel_signature.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace gsched::testing {
namespace {

using cuda::parameters_of;
using kind = cuda::parameter_kind;
using kinds = std::vector<kind>;

TEST_CASE("parameters of mangled names") {
  // gemm(float const*, float const*, float*, int): the second is a substitution
  CHECK(parameters_of("_Z4gemmPKfS0_Pfi") ==
        kinds{kind::pointer_to_const, kind::pointer_to_const, kind::pointer, kind::scalar});
  // void scale<float*>(float*, int, float)
  CHECK(parameters_of("_Z5scaleIPfEvT_if") == kinds{kind::pointer, kind::scalar, kind::scalar});
  // void (anonymous namespace)::copy<float>(float const*, float*)
  CHECK(parameters_of("_ZN12_GLOBAL__N_14copyIfEEvPKT_PS1_") ==
        kinds{kind::pointer_to_const, kind::pointer});
  // batched(float const* const*, float**, void const*)
  CHECK(parameters_of("_Z7batchedPKPKfPPfPKv") ==
        kinds{kind::pointer_to_pointer, kind::pointer_to_pointer, kind::pointer_to_const});
  // poll(unsigned int const volatile*)
  CHECK(parameters_of("_Z4pollPVKj") == kinds{kind::pointer});
}

TEST_CASE("names of a framework's kernels") {
  CHECK(parameters_of("_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb") ==
        kinds{kind::pointer, kind::pointer, kind::pointer, kind::scalar, kind::scalar, kind::scalar,
              kind::scalar, kind::scalar, kind::scalar});
  const auto lambda = parameters_of(
      "_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_36_cuda_scatter_gather_"
      "internal_kernelILb0ENS0_10OpaqueTypeILi8EEElEclINS0_12TensorAssignEEEvRNS_"
      "14TensorIteratorElllRKT_EUliE_EEviT1_");
  CHECK(lambda == kinds{kind::scalar, kind::unknown});
}

TEST_CASE("names without parameters") {
  CHECK(parameters_of("triton_poi_fused_0").empty());
  CHECK(parameters_of("_Z1av").empty());
  CHECK(parameters_of("").empty());
  CHECK(parameters_of("_Zbroken").empty());
  CHECK(cuda::demangled("_Z4gemmPKfS0_Pfi") == "gemm(float const*, float const*, float*, int)");
  CHECK(cuda::demangled("plain") == "plain");
}

} // namespace
} // namespace gsched::testing
