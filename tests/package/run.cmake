# SPDX-License-Identifier: Apache-2.0
# Installs the build into a prefix, builds the consumer against it by find_package, and runs it.
# Takes BUILD, CONSUMER, WORK, GENERATOR, CXX and INCLUDE_DIR (below the prefix).

file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX})

file(STRINGS ${WORK}/build/CMakeCache.txt found REGEX "^gsched_DIR:")
if(NOT found MATCHES "${WORK}/prefix/")
  message(FATAL_ERROR "another gsched was found: ${found}")
endif()
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)

# A package holds what a user needs and no program, test or path of this checkout.
file(GLOB_RECURSE files RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
list(FILTER files EXCLUDE REGEX "^(${INCLUDE_DIR}/gsched/|[^ ]*/cmake/gsched/gsched)")
if(files)
  message(FATAL_ERROR "the package also installs ${files}")
endif()
