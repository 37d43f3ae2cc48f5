// SPDX-License-Identifier: Apache-2.0
// Libraries that are no adaptors of this version; WRONG says what is wrong.
#if WRONG == 4
#include <gsched/server/adaptor.hpp>

extern "C" [[gnu::visibility("default")]] const gsched::adaptor_entry* gsched_adaptor() {
  static const gsched::adaptor_entry entry{.sizes = {1, 2, 3, 4, 5, 6}};
  return &entry;
}
#else // without the headers, as another version has others
namespace gsched {
struct adaptor_entry {
  char mark[8];
  unsigned version, reserved;
  const char* abi;
};
} // namespace gsched

extern "C" [[gnu::visibility("default")]] const gsched::adaptor_entry*
#if WRONG == 0
gsched_adapter() {
#else
gsched_adaptor() {
#endif
  static const gsched::adaptor_entry entry{
      {'g', 's', 'a', 'd', 'a', 'p', WRONG == 1 ? 'x' : 't', '\n'},
      WRONG == 2 ? 999U : 1U,
      0,
      "another compiler"};
  return &entry;
}
#endif
