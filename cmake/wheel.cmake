# What Python's wheel holds beside the package (pyproject.toml): the library under its soname, because a wheel has no
# links, with libsodium and the C++ runtime inside, so that it needs nothing that a machine may lack. auditwheel would add
# a second libstdc++ beside PyTorch's. The package uses ctypes: an extension module would need a wheel for each Python.
if(NOT SPARSECOLL_SODIUM_FOUND)
  message(FATAL_ERROR "the wheel needs libsodium.a and its headers (libsodium-dev): without it processes cannot meet")
endif()
set_target_properties(sparsecoll PROPERTIES VERSION 0)
target_link_options(sparsecoll PRIVATE -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-s)
install(TARGETS sparsecoll LIBRARY DESTINATION sparsecoll NAMELINK_SKIP COMPONENT python)
