// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/number_text.hpp>

#include <doctest/doctest.h>

#include <limits>

using gsched::number_text;

TEST_CASE("number_text: no zeros behind a number, and an exponent in place of many digits") {
  CHECK(number_text(0) == "0");
  CHECK(number_text(-1) == "-1");
  CHECK(number_text(0.05) == "0.05");
  CHECK(number_text(100000) == "100000");
  CHECK(number_text(3600000000) == "3600000000");
  CHECK(number_text(898.7) == "898.7");
  CHECK(number_text(-1e300) == "-1e+300");
  CHECK(number_text(1e-300) == "1e-300");
  CHECK(number_text(1.0 / 3) == "0.3333333333");
  CHECK(number_text(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(number_text(std::numeric_limits<double>::quiet_NaN()).substr(0, 3) == "nan");
  for (const double n : {-std::numeric_limits<double>::max(), std::numeric_limits<double>::min(),
                         -0.000123456789123, 1e10, 12345678912345.0})
    CHECK(number_text(n).size() <= 17);
}
