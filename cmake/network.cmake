# SPDX-License-Identifier: Apache-2.0
# The program gsched_server: where gRPC, protobuf with its compiler's plugin, and cpp-httplib are
# installed. Sets GSCHED_HAS_NETWORK. Under the thread sanitizer it is left out, since gRPC is built
# without.

set(GSCHED_HAS_NETWORK OFF)
if(NOT GSCHED_NETWORK)
  return()
endif()
set(missing "")
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(gsched_grpc QUIET IMPORTED_TARGET grpc++ protobuf)
  pkg_check_modules(gsched_openssl QUIET IMPORTED_TARGET libssl libcrypto)
  pkg_check_modules(gsched_httplib QUIET IMPORTED_TARGET cpp-httplib>=0.11 cpp-httplib<0.16)
else()
  list(APPEND missing pkg-config)
endif()
find_program(GSCHED_PROTOC protoc)
find_program(GSCHED_GRPC_PLUGIN grpc_cpp_plugin)
if(NOT gsched_grpc_FOUND)
  list(APPEND missing "grpc++ and protobuf")
endif()
if(NOT gsched_openssl_FOUND)
  list(APPEND missing "OpenSSL")
endif()
if(NOT gsched_httplib_FOUND)
  list(APPEND missing "cpp-httplib 0.11 to 0.15")
endif()
if(NOT GSCHED_PROTOC OR NOT GSCHED_GRPC_PLUGIN)
  list(APPEND missing "protoc with grpc_cpp_plugin")
endif()
if(missing)
  list(JOIN missing ", " missing)
  if(GSCHED_NETWORK STREQUAL "AUTO")
    message(STATUS "no ${missing}: the program gsched_server is left out")
    return()
  endif()
  message(FATAL_ERROR "GSCHED_NETWORK=${GSCHED_NETWORK}, but no ${missing}")
endif()
set(GSCHED_HAS_NETWORK ON)

# The protocol: generated, so without warnings, and the same whatever is built on it.
set(proto_folder ${CMAKE_CURRENT_SOURCE_DIR}/gsched_server/network)
set(generated_folder ${CMAKE_CURRENT_BINARY_DIR}/open_inference)
file(MAKE_DIRECTORY ${generated_folder})
set(generated ${generated_folder}/open_inference.pb.cc ${generated_folder}/open_inference.grpc.pb.cc)
add_custom_command(
  OUTPUT ${generated} ${generated_folder}/open_inference.pb.h ${generated_folder}/open_inference.grpc.pb.h
  COMMAND ${GSCHED_PROTOC} --proto_path=${proto_folder} --cpp_out=${generated_folder}
    --grpc_out=${generated_folder} --plugin=protoc-gen-grpc=${GSCHED_GRPC_PLUGIN} open_inference.proto
  DEPENDS ${proto_folder}/open_inference.proto VERBATIM)
add_library(gsched_open_inference STATIC ${generated})
target_include_directories(gsched_open_inference SYSTEM PUBLIC ${generated_folder})
target_link_libraries(gsched_open_inference PUBLIC PkgConfig::gsched_grpc)
target_compile_features(gsched_open_inference PUBLIC cxx_std_20)
target_compile_options(gsched_open_inference PRIVATE -w)
set_target_properties(gsched_open_inference PROPERTIES CXX_CLANG_TIDY "")
gsched_as_one(gsched_open_inference all ${generated})
gsched_optimise(gsched_open_inference -O0)

# The status page, as text for the compiler.
set(page ${CMAKE_CURRENT_SOURCE_DIR}/gsched_server/operations/status_page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} page_text)
file(CONFIGURE OUTPUT ${generated_folder}/status_page_html.hpp @ONLY CONTENT
"// Made from status_page.html.
#pragma once
inline constexpr const char* status_page_html = R\"page(@page_text@)page\";
")

# All but main, so that tests call it.
file(GLOB sources CONFIGURE_DEPENDS gsched_server/*.cpp gsched_server/*/*.cpp)
add_library(gsched_server_parts STATIC ${sources})
target_link_libraries(gsched_server_parts
  PUBLIC gsched_tools_common gsched_open_inference PkgConfig::gsched_httplib PkgConfig::gsched_openssl)
list(FILTER sources EXCLUDE REGEX "/grpc_front\\.cpp$") # its headers beside no others
set(operations ${sources})
list(FILTER operations INCLUDE REGEX "/gsched_server/operations/")
list(REMOVE_ITEM sources ${operations})
gsched_as_one(gsched_server_parts operations ${operations})
gsched_as_one(gsched_server_parts all ${sources})
gsched_optimise(gsched_server_parts -O1)
add_executable(gsched_server gsched_server.cpp)
target_link_libraries(gsched_server PRIVATE gsched_server_parts)
set_target_properties(gsched_server PROPERTIES ENABLE_EXPORTS ON) # adaptors share its runtime
gsched_optimise(gsched_server -O0)
