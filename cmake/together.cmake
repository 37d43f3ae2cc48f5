# SPDX-License-Identifier: Apache-2.0
# What keeps a build from nothing short. Nothing here reaches a consumer.

# gsched_as_one(TARGET NAME SOURCE...): where CMAKE_UNITY_BUILD is on, as in the presets, these sources
# of TARGET are compiled as one source for each language, since most of their compile time goes into
# the headers and templates that they share. The names in their unnamed namespaces differ, then, and
# none defines a macro for a header. A source that is not given is compiled alone.
function(gsched_as_one target name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${target}.${name})
  list(FILTER ARGN INCLUDE REGEX "\\.cu$") # to which CMake 3.25 gives no unity build
  if(ARGN AND CMAKE_UNITY_BUILD)
    set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
    list(TRANSFORM ARGN REPLACE "^.+$" "#include \"\\0\"\n")
    string(JOIN "" includes ${ARGN})
    file(CONFIGURE OUTPUT ${target}.${name}.cu CONTENT "${includes}" @ONLY)
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.cu)
  endif()
endfunction()

# gsched_optimise(TARGET LEVEL [SANITIZED]): the -O of its host code in a release build, in place of -O3.
# Tests and programs that run for a moment take the compiler longer than they then run: they are
# compiled with -O1, or with -O0, which is half the time of -O3. Under the address sanitizer -O0 is a
# third or a quarter of the time of -O1, under the thread sanitizer two thirds: SANITIZED is -O1 for
# what runs longer than that saves. Where CMAKE_CXX_FLAGS_RELEASE has -O1 or -Og, no target has more.
function(gsched_optimise target level)
  if(GSCHED_SANITIZE)
    if(NOT ARGN)
      target_compile_options(${target} PRIVATE -O0)
    endif()
  elseif(level STREQUAL "-O0" OR NOT CMAKE_CXX_FLAGS_RELEASE MATCHES "-O[1g]")
    target_compile_options(${target} PRIVATE
      $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>
      $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CUDA>>:-Xcompiler=${level}>)
  endif()
endfunction()
