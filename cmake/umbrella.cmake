# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=g++ -DINCLUDE=include -DWORK=dir -P umbrella.cmake: gsched.hpp holds every header of
# the library except those of a tool (*_json.hpp, cuda/) and of detail/, and drags in nothing heavy.

file(REAL_PATH ${INCLUDE} INCLUDE)
file(WRITE ${WORK}/umbrella.cpp "#include <gsched/gsched.hpp>\n")
execute_process(
  COMMAND ${CXX} -std=c++20 -I${INCLUDE} -M ${WORK}/umbrella.cpp
  OUTPUT_VARIABLE reached COMMAND_ERROR_IS_FATAL ANY)

foreach(heavy nlohmann/ CLI/ fmt/ eigen3/ simdjson doctest/ benchmark/ /iostream /regex)
  if(reached MATCHES "[^ ]*${heavy}[^ ]*")
    message(SEND_ERROR "gsched.hpp includes ${CMAKE_MATCH_0}")
  endif()
endforeach()

file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/gsched/*.hpp)
foreach(header IN LISTS headers)
  string(FIND "${reached}" "${INCLUDE}/${header}" at)
  if(header MATCHES "_json\\.hpp$|^gsched/cuda/|/detail/")
    if(NOT at EQUAL -1 AND NOT header MATCHES "/detail/")
      message(SEND_ERROR "gsched.hpp includes ${header}")
    endif()
  elseif(at EQUAL -1)
    message(SEND_ERROR "gsched.hpp lacks ${header}")
  endif()
endforeach()
