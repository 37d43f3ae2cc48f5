# SPDX-License-Identifier: Apache-2.0
# What keeps a build under a sanitizer, and one from nothing, short. Nothing here reaches a consumer.

# gsched_together(TARGET SOURCE...): where CMAKE_UNITY_BUILD is on, as in the sanitizers' presets and where CI is set, these
# sources of TARGET are compiled as one, as most of their time goes into what they share. The names in
# their unnamed namespaces differ, then; a source that is not given is compiled alone, as every one
# is otherwise.
function(gsched_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${target})
endfunction()

# gsched_compiled_quickly(TARGET): for what takes the compiler far longer than it then runs.
function(gsched_compiled_quickly target)
  if(GSCHED_SANITIZE MATCHES "address")
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# gsched_compiled_unrun(TARGET): for what needs a GPU to run, where a build from nothing is to be
# short: there it is compiled to see that it compiles.
set(gsched_short_build ${CMAKE_UNITY_BUILD}) # as it is at the top
function(gsched_compiled_unrun target)
  if(gsched_short_build)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()
