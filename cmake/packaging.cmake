# What `cmake --install` puts into a prefix: the shared library, the public headers, and the two ways to find them
# (find_package(sparsecoll CONFIG) and pkg-config). Both work from wherever the prefix is moved to.
include(CMakePackageConfigHelpers)
# Whatever umask it is installed with.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(SPARSECOLL_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sparsecoll)
set(SPARSECOLL_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS sparsecoll EXPORT sparsecollTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sparsecoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT sparsecollTargets NAMESPACE sparsecoll:: DESTINATION ${SPARSECOLL_CONFIG_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/sparsecoll-config.cmake.in
  ${PROJECT_BINARY_DIR}/sparsecollConfig.cmake INSTALL_DESTINATION ${SPARSECOLL_CONFIG_DIR}
  NO_SET_AND_CHECK_MACRO)
# While the major version is 0, a new minor version may break the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sparsecollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sparsecollConfig.cmake ${PROJECT_BINARY_DIR}/sparsecollConfigVersion.cmake
  DESTINATION ${SPARSECOLL_CONFIG_DIR})

# The .pc file names the prefix relative to itself, so the way up depends on how deep the library folder lies.
file(RELATIVE_PATH SPARSECOLL_PC_TO_PREFIX
  ${CMAKE_INSTALL_PREFIX}/${SPARSECOLL_PKGCONFIG_DIR} ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/sparsecoll.pc.in ${PROJECT_BINARY_DIR}/sparsecoll.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sparsecoll.pc DESTINATION ${SPARSECOLL_PKGCONFIG_DIR})
