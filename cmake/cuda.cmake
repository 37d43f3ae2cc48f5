# SPDX-License-Identifier: Apache-2.0
# Looks for a CUDA compiler, unless GSCHED_CUDA says not to, and teaches older CMakes C++20 for it.
# Sets GSCHED_HAS_CUDA.

set(GSCHED_HAS_CUDA OFF)
if(GSCHED_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(gsched_nvcc nvcc HINTS /usr/local/cuda/bin) # where the toolkit is, PATH or not
  if(gsched_nvcc)
    set(CMAKE_CUDA_COMPILER ${gsched_nvcc} CACHE FILEPATH "CUDA compiler")
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  if(GSCHED_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GSCHED_CUDA is ON, but no CUDA compiler was found; set CUDACXX")
  endif()
  message(STATUS "No CUDA compiler: gsched::cuda is left out")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90) # code for these, and PTX for what comes after
endif()
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
include(cuda20)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)
set(GSCHED_HAS_CUDA ON)
