# SPDX-License-Identifier: Apache-2.0
# Tests of cuda/c. The server is tested without a GPU, and so wherever there is no CUDA either.

set(c_abi ${PROJECT_SOURCE_DIR}/cuda/c)
set(files ${c_abi}/src/model_check.cpp ${c_abi}/src/plan_settings.cpp ${c_abi}/src/refusal.cpp
  ${c_abi}/src/server.cpp ${c_abi}/src/settings.cpp ${c_abi}/src/slow_downs.cpp
  cuda/c_abi_channel.cpp cuda/c_abi_plan.cpp cuda/c_abi_server.cpp cuda/c_abi_slow_downs.cpp
  cuda/c_abi_waits.cpp)
add_executable(gsched.test.c_abi_server ${files})
target_link_libraries(gsched.test.c_abi_server
  PRIVATE gsched::gsched gsched.test.main nlohmann_json::nlohmann_json)
target_include_directories(gsched.test.c_abi_server PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR} ${c_abi}/src ${c_abi}/include ${PROJECT_SOURCE_DIR}/cuda/include)
target_compile_definitions(gsched.test.c_abi_server
  PRIVATE GSCHED_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
gsched_as_one(gsched.test.c_abi_server all ${files})
gsched_optimise(gsched.test.c_abi_server -O0)
add_test(NAME gsched.test.c_abi_server COMMAND gsched.test.c_abi_server)
set_tests_properties(gsched.test.c_abi_server PROPERTIES TIMEOUT 300)

add_test(NAME gsched.test.c_abi_header COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c99 -pedantic -Wall
  -Wextra -Werror -fsyntax-only -I${c_abi}/include ${CMAKE_CURRENT_SOURCE_DIR}/cuda/c_abi_header.c)
add_test(NAME gsched.test.measure_header COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c99 -pedantic -Wall
  -Wextra -Werror -fsyntax-only -I${PROJECT_SOURCE_DIR}/tools/cuda/measure/library/include
  ${CMAKE_CURRENT_SOURCE_DIR}/cuda/measure_graphs.c)

if(GSCHED_HAS_CUDA)
  file(GLOB files CONFIGURE_DEPENDS cuda/c_abi_gpu*.cpp cuda/c_abi_gpu*.cu)
  add_executable(gsched.test.c_abi cuda/c_abi_calls.cpp ${files})
  target_link_libraries(gsched.test.c_abi PRIVATE gsched::c gsched.test.main CUDA::cudart_static)
  target_include_directories(gsched.test.c_abi PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/cuda/include) # for kernels that report
  target_compile_features(gsched.test.c_abi PRIVATE cxx_std_20)
  target_compile_definitions(gsched.test.c_abi PRIVATE GSCHED_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gsched_as_one(gsched.test.c_abi tests cuda/c_abi_calls.cpp ${files})
  gsched_optimise(gsched.test.c_abi -O0)
  add_test(NAME gsched.test.c_abi COMMAND gsched.test.c_abi)
  set_tests_properties(gsched.test.c_abi PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL ON)

  if(TARGET gsched::measure_graphs)
    target_link_libraries(gsched.test.c_abi PRIVATE gsched::measure_graphs)
    enable_language(C)
    add_executable(gsched.test.measure_graphs cuda/measure_graphs.c)
    set_target_properties(gsched.test.measure_graphs PROPERTIES
      C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
    target_link_libraries(gsched.test.measure_graphs PRIVATE gsched::measure_graphs)
    add_test(NAME gsched.test.measure_graphs COMMAND gsched.test.measure_graphs)
    set_tests_properties(gsched.test.measure_graphs PROPERTIES TIMEOUT 60)
    add_test(NAME gsched.test.measure_symbols COMMAND bash -c
      "nm -D --defined-only $<TARGET_FILE:measure_graphs> | grep -v ' A ' | grep -v ' gsched_measure_'; test $? = 1")
  endif()

  # The library shows its ABI and nothing else.
  add_test(NAME gsched.test.c_abi_symbols COMMAND bash -c
    "nm -D --defined-only $<TARGET_FILE:gsched.c> | grep -v ' A ' | grep -v ' gsched_'; test $? = 1")
endif()
