# find_package(Coracle): Coracle::coracle, the shared library, and Coracle::static, the static one; both with coracle.h and coracle.hpp.
#
# C++ programs need C++17; with C++23 the results are std::expected.
# The libraries are in lib/, or, in packages of distributions, in lib64/ or lib/x86_64-linux-gnu/.
get_filename_component(_coracle_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_coracle_prefix "${_coracle_lib}/.." ABSOLUTE)
if(NOT EXISTS "${_coracle_prefix}/include/coracle.h")
  get_filename_component(_coracle_prefix "${_coracle_prefix}/.." ABSOLUTE)
endif()

foreach(_coracle_file "${_coracle_lib}/libcoracle.so" "${_coracle_lib}/libcoracle.a" "${_coracle_prefix}/include/coracle.h"
    "${_coracle_prefix}/include/coracle.hpp")
  if(NOT EXISTS "${_coracle_file}")
    set(Coracle_FOUND FALSE)
    set(Coracle_NOT_FOUND_MESSAGE "${_coracle_file} is missing")
    return()
  endif()
endforeach()

if(NOT TARGET Coracle::coracle)
  add_library(Coracle::coracle SHARED IMPORTED)
  set_target_properties(Coracle::coracle PROPERTIES
    IMPORTED_LOCATION "${_coracle_lib}/libcoracle.so"
    IMPORTED_SONAME "libcoracle.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_coracle_prefix}/include")
  add_library(Coracle::static STATIC IMPORTED)
  set_target_properties(Coracle::static PROPERTIES
    IMPORTED_LOCATION "${_coracle_lib}/libcoracle.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_coracle_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m;gcc_eh")
endif()
