# What a user of the library gets: library, headers, pkg-config and CMake package files, the doctor.
if(NOT TARGET quoit)
    return()
endif()
include(CMakePackageConfigHelpers)

# Two export sets: the static library needs liburing and libffi at its user's link, the shared one nothing.
install(TARGETS quoit EXPORT quoitTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS quoit_static EXPORT quoitStaticTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES ${quoit_public_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/quoit")
if(TARGET quoit-doctor)
    install(TARGETS quoit-doctor RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# The .pc file finds its prefix from its own place, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE quoit_pc_prefix)
configure_file("${PROJECT_SOURCE_DIR}/capi/quoit.pc.in" "${PROJECT_BINARY_DIR}/quoit.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/quoit.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(quoit_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/quoit")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/quoitConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/quoitConfig.cmake" INSTALL_DESTINATION "${quoit_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/quoitConfigVersion.cmake"
                                 COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/quoitConfig.cmake" "${PROJECT_BINARY_DIR}/quoitConfigVersion.cmake"
        DESTINATION "${quoit_package_dir}")
install(EXPORT quoitStaticTargets NAMESPACE quoit:: DESTINATION "${quoit_package_dir}")
install(EXPORT quoitTargets NAMESPACE quoit:: DESTINATION "${quoit_package_dir}")
