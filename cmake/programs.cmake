# Programs that use the library as anybody else does: through its public headers.
function(quoit_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE quoit_flags quoit)
endfunction()

if(EXISTS "${PROJECT_SOURCE_DIR}/capi/layout.c")
    # Prints layout.json: sizes, offsets and constants as C sees them. Links nothing.
    add_executable(quoit-layout "${PROJECT_SOURCE_DIR}/capi/layout.c")
    target_include_directories(quoit-layout PRIVATE "${PROJECT_SOURCE_DIR}/capi/include")
    target_link_libraries(quoit-layout PRIVATE quoit_flags)
endif()

if(NOT TARGET quoit)
    return()
endif()

file(GLOB quoit_doctor_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/doctor/*.c")
if(quoit_doctor_sources)
    quoit_program(quoit-doctor ${quoit_doctor_sources})
    set_target_properties(quoit-doctor PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/bench/copies.c")
    quoit_program(quoit-copies "${PROJECT_SOURCE_DIR}/bench/copies.c")
    target_link_libraries(quoit-copies PRIVATE Threads::Threads)
endif()

file(GLOB quoit_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/c/*.c")
foreach(source ${quoit_examples})
    cmake_path(GET source STEM stem)
    quoit_program(quoit-example-${stem} ${source})
endforeach()

# What a timer costs: ./dev bench timers.
if(EXISTS "${PROJECT_SOURCE_DIR}/bench/timers.c")
    quoit_program(quoit-bench-timers "${PROJECT_SOURCE_DIR}/bench/timers.c")
endif()
