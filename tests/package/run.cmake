# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer twice: against an installed package, and with this source tree as a
# folder of its own. Takes BUILD, SOURCE, CONSUMER, WORK, GENERATOR, CXX, INCLUDE_DIR, LIB_DIR and
# CUDA, whether the build has gsched::cuda: then the package's is linked too.

file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(consume way)
  run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/${way} -G ${GENERATOR}
      -DCMAKE_CXX_COMPILER=${CXX} ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${way})
  run(${WORK}/${way}/consumer)
  run(${WORK}/${way}/json_consumer ${SOURCE}/examples/data/profiles/lenet_b1.json)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
consume(package -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCONSUMER_CUDA=${CUDA})
if(CUDA)
  run(${WORK}/package/cuda_consumer)
endif()
file(STRINGS ${WORK}/package/CMakeCache.txt found REGEX "^gsched_DIR:")
if(NOT found MATCHES "${WORK}/prefix/")
  message(FATAL_ERROR "another gsched was found: ${found}")
endif()
consume(subfolder -DGSCHED_SOURCE=${SOURCE} -DGSCHED_CUDA=OFF)

# A package holds what a user needs and no program or test.
file(GLOB_RECURSE files RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
list(FILTER files EXCLUDE REGEX "^(${INCLUDE_DIR}/gsched/|[^ ]*/cmake/gsched/|${LIB_DIR}/libgsched_)")
if(files)
  message(FATAL_ERROR "the package also installs ${files}")
endif()
