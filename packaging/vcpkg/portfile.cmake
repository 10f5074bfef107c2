# Coracle for vcpkg, of a release archive:
#   CORACLE_ARCHIVES=DIR VCPKG_KEEP_ENV_VARS=CORACLE_ARCHIVES vcpkg install coracle --overlay-ports=packaging/vcpkg
# DIR has coracle-VERSION-ARCH-linux-gnu.tar.xz. A triplet with VCPKG_LIBRARY_LINKAGE dynamic gets the shared library.
set(VCPKG_BUILD_TYPE release)
# The files of find_package(Coracle) look for the libraries beside lib/cmake.
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)

if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
  set(machine aarch64)
else()
  set(machine x86_64)
endif()
set(archive "$ENV{CORACLE_ARCHIVES}/coracle-${VERSION}-${machine}-linux-gnu.tar.xz")
if(NOT EXISTS "${archive}")
  message(FATAL_ERROR "CORACLE_ARCHIVES names no directory with coracle-${VERSION}-${machine}-linux-gnu.tar.xz")
endif()
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

file(INSTALL "${source}/include/" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
file(INSTALL "${source}/lib/cmake" "${source}/lib/pkgconfig" DESTINATION "${CURRENT_PACKAGES_DIR}/lib")
file(GLOB libraries "${source}/lib/libcoracle.*")
file(INSTALL ${libraries} DESTINATION "${CURRENT_PACKAGES_DIR}/lib")
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE-APACHE" "${source}/LICENSE-MIT" "${source}/THIRD-PARTY.txt")
