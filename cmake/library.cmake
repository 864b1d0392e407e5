# libquoit.so.1 and libquoit.a, both from the objects of runtime/ and capi/src/.
file(GLOB_RECURSE quoit_runtime_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/runtime/*.c")
file(GLOB quoit_capi_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/capi/src/*.c")
file(GLOB quoit_public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/capi/include/quoit/*.h")
set(quoit_map "${PROJECT_SOURCE_DIR}/capi/quoit.map")

if(NOT quoit_runtime_sources AND NOT quoit_capi_sources)
    message(STATUS "No library sources yet: nothing to build")
    return()
endif()

add_library(quoit_objects OBJECT ${quoit_runtime_sources} ${quoit_capi_sources})
target_include_directories(quoit_objects
    PUBLIC "${PROJECT_SOURCE_DIR}/capi/include"
    PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime")
target_link_libraries(quoit_objects
    PUBLIC PkgConfig::liburing PkgConfig::libffi Threads::Threads ${CMAKE_DL_LIBS}
    PRIVATE quoit_flags)
target_compile_options(quoit_objects PRIVATE -fno-semantic-interposition)
set_target_properties(quoit_objects PROPERTIES
    C_VISIBILITY_PRESET hidden
    POSITION_INDEPENDENT_CODE ON)

add_library(quoit SHARED $<TARGET_OBJECTS:quoit_objects>)
add_library(quoit::quoit ALIAS quoit)
target_include_directories(quoit INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(quoit PRIVATE quoit_flags PkgConfig::liburing PkgConfig::libffi Threads::Threads
                      ${CMAKE_DL_LIBS})
# SONAME 1 for ever; the library stays mapped after dlclose because its threads may still run.
set_target_properties(quoit PROPERTIES SOVERSION 1 VERSION 1 LINK_DEPENDS "${quoit_map}")
target_link_options(quoit PRIVATE
    "-Wl,--version-script=${quoit_map}" -Wl,--no-undefined-version
    -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,--build-id=sha1)

add_library(quoit_static STATIC $<TARGET_OBJECTS:quoit_objects>)
set_target_properties(quoit_static PROPERTIES OUTPUT_NAME quoit)
target_include_directories(quoit_static INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(quoit_static PUBLIC PkgConfig::liburing PkgConfig::libffi Threads::Threads
                      ${CMAKE_DL_LIBS})
