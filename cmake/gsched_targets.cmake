# SPDX-License-Identifier: Apache-2.0
# How this project builds its own programs. Nothing here reaches a consumer.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  find_program(CCACHE ccache)
  if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  endif()
endif()

add_library(gsched_warnings INTERFACE)
target_compile_options(gsched_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wsign-conversion
  $<$<BOOL:${GSCHED_WERROR}>:-Werror>)

add_library(gsched_sanitizers INTERFACE)
if(GSCHED_SANITIZE)
  target_compile_options(gsched_sanitizers INTERFACE
    -fsanitize=${GSCHED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gsched_sanitizers INTERFACE -fsanitize=${GSCHED_SANITIZE})
endif()

# gsched_program(NAME SOURCES...): an executable of this project, with its warnings and sanitizers.
function(gsched_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE gsched::gsched gsched_warnings gsched_sanitizers)
endfunction()
