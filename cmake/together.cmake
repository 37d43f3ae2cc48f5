# SPDX-License-Identifier: Apache-2.0
# What keeps a build from nothing short. Nothing here reaches a consumer.

# gsched_together(TARGET SOURCE...): where CMAKE_UNITY_BUILD is on, as in the presets, these sources
# of TARGET are compiled four at a time, since most of their compile time goes into the headers and
# templates that they share. The names in their unnamed namespaces differ, then. A source that is
# not given is compiled alone.
function(gsched_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set(n 0)
  foreach(source IN LISTS ARGN)
    math(EXPR group "${n} / 4")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}.${group})
    math(EXPR n "${n} + 1")
  endforeach()
endfunction()

# gsched_optimise(TARGET LEVEL): the -O of its host code in a release build, in place of -O3. Tests
# and programs that run for a moment take the compiler longer than they then run: they are compiled
# with -O1, or with -O0, which is half the time of -O3.
function(gsched_optimise target level)
  if(GSCHED_SANITIZE MATCHES "address" AND level STREQUAL "-O0")
    target_compile_options(${target} PRIVATE -O0)
  elseif(NOT GSCHED_SANITIZE)
    target_compile_options(${target} PRIVATE
      $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>
      $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CUDA>>:-Xcompiler=${level}>)
  endif()
endfunction()
