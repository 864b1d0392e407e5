# Flags for all C of the project; targets of ours link quoit_flags.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")

add_library(quoit_flags INTERFACE)
# Empty, so that files which define it themselves for other builds may do so again.
target_compile_definitions(quoit_flags INTERFACE "_GNU_SOURCE=")
target_compile_options(quoit_flags INTERFACE -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wvla
                       -Wshadow -Wpointer-arith -Wwrite-strings -fno-common)
if(QUOIT_WERROR)
    target_compile_options(quoit_flags INTERFACE -Werror)
endif()
if(NOT QUOIT_ASSERT)
    target_compile_definitions(quoit_flags INTERFACE NDEBUG)
endif()
if(QUOIT_SANITIZE)
    # -O1 keeps stacks readable; fences are invisible to the thread sanitizer, which gcc warns of.
    target_compile_options(quoit_flags INTERFACE -fsanitize=${QUOIT_SANITIZE} -fno-omit-frame-pointer -O1)
    if(QUOIT_SANITIZE MATCHES "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(quoit_flags INTERFACE -Wno-tsan)
    endif()
    if(QUOIT_SANITIZE MATCHES "undefined")
        target_compile_options(quoit_flags INTERFACE -fno-sanitize-recover=undefined)
    endif()
    target_link_options(quoit_flags INTERFACE -fsanitize=${QUOIT_SANITIZE})
endif()
