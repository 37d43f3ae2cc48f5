# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=. -P sources.cmake: headers, and sources of the CUDA component, stay under 300 lines
# and examples under 150; every source begins with its licence, and every header is included once.

file(REAL_PATH ${SOURCE} SOURCE)
set(breaches "")
set(checked 0)

function(check limit)
  foreach(source IN LISTS ARGN)
    file(READ ${SOURCE}/${source} text)
    string(REGEX MATCHALL "\n" newlines "${text}")
    list(LENGTH newlines lines)
    if(NOT lines LESS limit)
      string(APPEND breaches "  ${source}: ${lines} lines, not under ${limit}\n")
    endif()
    if(NOT text MATCHES "^// SPDX-License-Identifier: Apache-2.0\n")
      string(APPEND breaches "  ${source}: its first line is not the SPDX line\n")
    endif()
    if(source MATCHES "\\.(hpp|cuh)$" AND NOT text MATCHES "\n#pragma once\n")
      string(APPEND breaches "  ${source}: no #pragma once\n")
    endif()
    math(EXPR checked "${checked} + 1")
  endforeach()
  set(breaches "${breaches}" PARENT_SCOPE)
  set(checked ${checked} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/include/*.hpp ${SOURCE}/cuda/*.?pp
  ${SOURCE}/cuda/*.cu ${SOURCE}/cuda/*.cuh ${SOURCE}/cuda/*.h)
file(GLOB examples RELATIVE ${SOURCE} ${SOURCE}/examples/*.cpp ${SOURCE}/examples/cuda/*.cpp
  ${SOURCE}/examples/cuda/*.cu)
file(GLOB parts RELATIVE ${SOURCE} ${SOURCE}/examples/*/*.cpp ${SOURCE}/examples/*/*.hpp
  ${SOURCE}/examples/cuda/*/*.cpp ${SOURCE}/examples/cuda/*/*.hpp ${SOURCE}/examples/cuda/*/*.cu)
list(REMOVE_ITEM parts ${examples})
file(GLOB_RECURSE others RELATIVE ${SOURCE} ${SOURCE}/tests/*.?pp ${SOURCE}/tests/*.cu
  ${SOURCE}/bench/*.?pp ${SOURCE}/bench/*.cu)
check(300 ${headers})
check(150 ${examples})
check(300 ${parts})
check(100000 ${others})

if(breaches)
  message(FATAL_ERROR "sources out of shape:\n${breaches}")
elseif(checked EQUAL 0)
  message(FATAL_ERROR "no source below ${SOURCE}")
endif()
message("${checked} sources are in shape")
