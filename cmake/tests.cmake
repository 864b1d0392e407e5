# Tests in C: unit tests see the objects, conformance tests see only what is installed.
set(quoit_drivers uring-defer uring-coop uring-plain epoll)

file(GLOB quoit_launchers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/launch/*.c")
foreach(source ${quoit_launchers})
    cmake_path(GET source STEM stem)
    add_executable(quoit-launch-${stem} ${source})
    target_link_libraries(quoit-launch-${stem} PRIVATE quoit_flags)
endforeach()

if(NOT TARGET quoit)
    return()
endif()
pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)

file(GLOB quoit_support_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.c")
add_library(quoit_test_support INTERFACE)
target_include_directories(quoit_test_support INTERFACE "${PROJECT_SOURCE_DIR}/tests/support")
target_link_libraries(quoit_test_support INTERFACE PkgConfig::cmocka Threads::Threads)
if(quoit_support_sources)
    add_library(quoit_support STATIC ${quoit_support_sources})
    target_include_directories(quoit_support PUBLIC "${PROJECT_SOURCE_DIR}/tests/support"
                               PRIVATE "${PROJECT_SOURCE_DIR}/capi/include")
    target_link_libraries(quoit_support PRIVATE quoit_flags PkgConfig::cmocka Threads::Threads)
    target_link_libraries(quoit_test_support INTERFACE quoit_support)
endif()

file(GLOB quoit_unit_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/*.c")
foreach(source ${quoit_unit_sources})
    cmake_path(GET source STEM stem)
    set(name quoit-unit-${stem})
    add_executable(${name} ${source} $<TARGET_OBJECTS:quoit_objects>)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime"
                               "${PROJECT_SOURCE_DIR}/capi/include")
    target_link_libraries(${name} PRIVATE quoit_flags quoit_test_support PkgConfig::liburing
                          PkgConfig::libffi ${CMAKE_DL_LIBS} m)
    if(stem STREQUAL "test_clocks") # its clocks say what the test says
        target_link_options(${name} PRIVATE -Wl,--wrap=clock_gettime,--wrap=timerfd_create)
    endif()
    add_test(NAME unit-${stem} COMMAND ${name})
    set_tests_properties(unit-${stem} PROPERTIES TIMEOUT 120 LABELS unit)
endforeach()

file(GLOB quoit_conformance_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/conformance/*.c")
if(quoit_conformance_sources)
    add_executable(quoit-conformance ${quoit_conformance_sources})
    target_include_directories(quoit-conformance PRIVATE "${PROJECT_SOURCE_DIR}/tests/conformance")
    target_link_libraries(quoit-conformance PRIVATE quoit_flags quoit_test_support quoit ${CMAKE_DL_LIBS} m)
    foreach(driver ${quoit_drivers})
        add_test(NAME conformance-${driver} COMMAND quoit-conformance)
        set_tests_properties(conformance-${driver} PROPERTIES TIMEOUT 900 LABELS conformance
                             ENVIRONMENT "QUOIT_DRIVER=${driver}")
    endforeach()
endif()

# Random interleavings, through the public headers only: ./dev torture.
file(GLOB quoit_torture_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/torture/*.c")
if(quoit_torture_sources)
    add_executable(quoit-torture ${quoit_torture_sources})
    target_link_libraries(quoit-torture PRIVATE quoit_flags quoit_test_support quoit)
endif()

# Connections opened, closed and killed: ./dev churn.
if(EXISTS "${PROJECT_SOURCE_DIR}/tests/churn/server.c")
    add_executable(quoit-churn-server "${PROJECT_SOURCE_DIR}/tests/churn/server.c")
    target_link_libraries(quoit-churn-server PRIVATE quoit_flags quoit)
    add_executable(quoit-churn-client "${PROJECT_SOURCE_DIR}/tests/churn/client.c")
    target_link_libraries(quoit-churn-client PRIVATE quoit_flags)
endif()

# The examples that no demo drives.
find_program(quoit_python NAMES python3)
if(quoit_python AND TARGET quoit-example-udp_echo)
    foreach(example udp_echo balance)
        foreach(driver ${quoit_drivers})
            add_test(NAME unit-example-${example}-${driver}
                     COMMAND ${quoit_python} "${PROJECT_SOURCE_DIR}/tests/examples/${example}.py"
                             $<TARGET_FILE:quoit-example-${example}> ${driver})
            set_tests_properties(unit-example-${example}-${driver} PROPERTIES TIMEOUT 120 LABELS unit)
        endforeach()
    endforeach()
endif()
