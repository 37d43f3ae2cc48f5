# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer against an installed package, with each of its components and with
# none, and with this source tree as a folder of its own; then what else is installed. Takes BUILD,
# SOURCE, CONSUMER, WORK, GENERATOR, CXX, INCLUDE_DIR, LIB_DIR, BIN_DIR, DATA_DIR, PYTHON; LAUNCHER, none or
# such as ccache, since most ways compile the same; CUDA, CLIENT and MEASURE_GRAPHS, whether the build has
# gsched::cuda, gsched::client and gsched::measure_graphs; and SANITIZE, of which consumers know nothing.

file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(profile ${SOURCE}/tools/data/profiles/lenet_b1.json)
function(consume way)
  run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/${way} -G ${GENERATOR}
      -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${way})
  run(${WORK}/${way}/consumer)
  run(${WORK}/${way}/json_consumer ${profile})
endfunction()
function(refuse way text) # a package that cannot be had says why
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/${way} -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${CXX} ${ARGN} RESULT_VARIABLE rc ERROR_VARIABLE said OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "${text}" at)
  if(rc EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${way}: expected an error with '${text}', got ${rc} and: ${said}")
  endif()
endfunction()
function(expect_no_cuda way) # nothing has looked for a CUDA compiler or toolkit
  file(STRINGS ${WORK}/${way}/CMakeCache.txt found REGEX "CUDA_COMPILER|CUDAToolkit|nvcc")
  if(found)
    message(FATAL_ERROR "${way}: CUDA was looked for: ${found}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(installed -DCMAKE_PREFIX_PATH=${WORK}/prefix)
consume(package ${installed})
run(${WORK}/package/policy_consumer)
expect_no_cuda(package)
file(STRINGS ${WORK}/package/CMakeCache.txt found REGEX "^gsched_DIR:")
if(NOT found MATCHES "${WORK}/prefix/")
  message(FATAL_ERROR "another gsched was found: ${found}")
endif()
if(EXISTS ${WORK}/prefix/${BIN_DIR}/gsched_server)
  run(${WORK}/prefix/${BIN_DIR}/gsched_server --adaptor ${WORK}/package/libvector_add.so --check)
endif()
if(CLIENT AND NOT SANITIZE)
  consume(client ${installed} -DGSCHED_COMPONENTS=client)
  expect_no_cuda(client)
  run(${WORK}/client/client_consumer)
  run(${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/prefix/${DATA_DIR}/gsched/python
      ${PYTHON} -c "from gsched import _client_abi; _client_abi.load_library()")
endif()
if(CUDA)
  consume(components ${installed} -DGSCHED_COMPONENTS=cuda,cuda_tools,c)
  foreach(component cuda cuda_tools c)
    run(${WORK}/components/${component}_consumer)
  endforeach()
  consume(c ${installed} -DGSCHED_COMPONENTS=c)
  expect_no_cuda(c)
  run(${WORK}/c/c_consumer)
  if(MEASURE_GRAPHS)
    consume(measure_graphs ${installed} -DGSCHED_COMPONENTS=measure_graphs)
    expect_no_cuda(measure_graphs)
    run(${WORK}/measure_graphs/measure_graphs_consumer)
  endif()
  refuse(no_toolkit "no CUDA toolkit for its component cuda" ${installed} -DGSCHED_COMPONENTS=cuda
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
  run(${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/prefix/${DATA_DIR}/gsched/python
    ${PYTHON} -c "import gsched; from gsched import _abi; _abi.load_library()")
else()
  refuse(no_cuda "without the component c" ${installed} -DGSCHED_COMPONENTS=c)
endif()
refuse(unknown "gsched" ${installed} -DGSCHED_COMPONENTS=nonsense)

consume(subfolder -DGSCHED_SOURCE=${SOURCE})
expect_no_cuda(subfolder)

# Programs find the data that is installed with them.
if(EXISTS ${WORK}/prefix/${BIN_DIR}/plan)
  run(${WORK}/prefix/${BIN_DIR}/plan --rates lenet=10 --no-progress)
  execute_process(COMMAND ${WORK}/prefix/${BIN_DIR}/plan --help OUTPUT_VARIABLE help)
  string(FIND "${help}" "${WORK}/prefix/${DATA_DIR}/gsched/latency_batch_partition.csv" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "plan does not read the table that is installed with it: ${help}")
  endif()
endif()
foreach(data profiles/lenet_b1.json presets/h200.json corun_pairs.csv workloads/disb_a.json)
  if(NOT EXISTS ${WORK}/prefix/${DATA_DIR}/gsched/${data})
    message(FATAL_ERROR "the package lacks ${data}")
  endif()
endforeach()

# A package holds what a user needs, and no test.
file(GLOB_RECURSE files RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
list(FILTER files EXCLUDE REGEX
  "^(${INCLUDE_DIR}/gsched/|${DATA_DIR}/cmake/gsched/|${LIB_DIR}/libgsched_|${LIB_DIR}/libmeasure_graphs|${BIN_DIR}/|${DATA_DIR}/gsched/)")
if(files)
  message(FATAL_ERROR "the package also installs ${files}")
endif()
file(GLOB programs RELATIVE ${WORK}/prefix/${BIN_DIR} ${WORK}/prefix/${BIN_DIR}/*)
list(FILTER programs INCLUDE REGEX "test|fuzz|bench|^gsched\\.")
if(programs)
  message(FATAL_ERROR "the package also installs ${programs}")
endif()
