# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=. -P sources.cmake: every source begins with its licence, and every header is included once.

file(REAL_PATH ${SOURCE} SOURCE)
set(breaches "")
set(checked 0)

foreach(folder include cuda examples tests bench)
  file(GLOB_RECURSE sources RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.?pp ${SOURCE}/${folder}/*.cu
    ${SOURCE}/${folder}/*.cuh ${SOURCE}/${folder}/*.h)
  foreach(source IN LISTS sources)
    file(READ ${SOURCE}/${source} text)
    if(NOT text MATCHES "^// SPDX-License-Identifier: Apache-2.0\n")
      string(APPEND breaches "  ${source}: its first line is not the SPDX line\n")
    endif()
    if(source MATCHES "\\.(hpp|cuh)$" AND NOT text MATCHES "\n#pragma once\n")
      string(APPEND breaches "  ${source}: no #pragma once\n")
    endif()
    math(EXPR checked "${checked} + 1")
  endforeach()
endforeach()

if(breaches)
  message(FATAL_ERROR "sources out of shape:\n${breaches}")
elseif(checked EQUAL 0)
  message(FATAL_ERROR "no source below ${SOURCE}")
endif()
message("${checked} sources are in shape")
