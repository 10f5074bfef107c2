# find_package(Coracle): Coracle::coracle, the shared library, and Coracle::static, the static one; both with coracle.h and coracle.hpp.
#
# C++ programs need C++17; with C++23 the results are std::expected.
get_filename_component(_coracle_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_coracle_lib "${_coracle_prefix}/lib")

foreach(_coracle_file "lib/libcoracle.so" "lib/libcoracle.a" "include/coracle.h" "include/coracle.hpp")
  if(NOT EXISTS "${_coracle_prefix}/${_coracle_file}")
    set(Coracle_FOUND FALSE)
    set(Coracle_NOT_FOUND_MESSAGE "${_coracle_prefix}/${_coracle_file} is missing")
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
