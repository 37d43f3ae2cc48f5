# SPDX-License-Identifier: Apache-2.0
# How this project builds its own programs. Nothing here reaches a consumer.

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# For the whole directory, so that no target is without them, and no consumer has them.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Wsign-conversion>")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Cries wolf at "text" + std::to_string(n), GCC PR 105651.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Optimised, it does not see that an empty std::optional is not read, GCC PR 80635.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  # It then collects its garbage seldom: an eighth of the time, for half a gigabyte of memory.
  set(seldom --param=ggc-min-expand=100 --param=ggc-min-heapsize=524288)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${seldom}>")
  list(JOIN seldom "," seldom)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${seldom}>")
endif()
if(GSCHED_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
if(GSCHED_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GSCHED_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND GSCHED_SANITIZE MATCHES "address")
    # Cries wolf at std::optional members under this sanitizer.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  add_link_options(-fsanitize=${GSCHED_SANITIZE})
  add_compile_definitions(GSCHED_SANITIZED) # long tests are shorter then
endif()
