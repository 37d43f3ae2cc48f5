# SPDX-License-Identifier: Apache-2.0
# gsched.headers: each header compiles as if alone, in the sources that header_chains.py writes.

set(library gsched::gsched)
set(targets gsched)
if(GSCHED_HAS_CUDA)
  set(library gsched::cuda_tools) # and what it is built on
  list(APPEND targets gsched.cuda gsched.cuda_tools)
endif()
set(headers "")
set(folders "")
foreach(target IN LISTS targets)
  get_target_property(more ${target} HEADER_SET)
  list(APPEND headers ${more})
  get_target_property(more ${target} HEADER_DIRS)
  list(APPEND folders ${more})
endforeach()

set(chains ${CMAKE_CURRENT_BINARY_DIR}/headers)
set(sources ${headers})
list(TRANSFORM sources REPLACE "^.*/include/(gsched/.*)$" "${chains}/\\1.cpp")
add_custom_command(OUTPUT ${sources} COMMENT "Choosing the chains of headers"
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/header_chains.py ${chains} ${folders}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/header_chains.py ${headers})
add_custom_target(gsched.header_chains DEPENDS ${sources})

add_library(gsched.headers OBJECT EXCLUDE_FROM_ALL ${sources})
add_dependencies(gsched.headers gsched.header_chains)
target_link_libraries(gsched.headers PRIVATE ${library} nlohmann_json::nlohmann_json)
add_test(NAME gsched.headers COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR}
  --target gsched.headers)
