"""Coracle for Conan 2, of a release archive: `CORACLE_ARCHIVES=DIR conan create packaging/conan --version VERSION` (`-o coracle/*:shared=False`
for the static library). DIR has `coracle-VERSION-ARCH-linux-gnu.tar.xz`."""

import os
import pathlib

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, rm, unzip

# Conan's names of machines, and those of the archives.
MACHINES = {"x86_64": "x86_64", "armv8": "aarch64"}


class Coracle(ConanFile):
    name = "coracle"
    description = "A whole container engine as a library"
    license = ("Apache-2.0", "MIT")
    package_type = "library"
    settings = "os", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    def validate(self):
        if self.settings.os != "Linux" or str(self.settings.arch) not in MACHINES:
            raise ConanInvalidConfiguration(f"coracle is for Linux on {' and '.join(MACHINES)}")

    def build(self):
        name = f"coracle-{self.version}-{MACHINES[str(self.settings.arch)]}-linux-gnu.tar.xz"
        if "CORACLE_ARCHIVES" not in os.environ:
            raise ConanInvalidConfiguration(f"CORACLE_ARCHIVES names no directory with {name}")
        unzip(self, str(pathlib.Path(os.environ["CORACLE_ARCHIVES"], name)), strip_root=True)

    def package(self):
        copy(self, "*", self.build_folder, self.package_folder)
        rm(self, "libcoracle.a" if self.options.shared else "libcoracle.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Coracle")
        self.cpp_info.set_property("cmake_target_name", "Coracle::coracle")
        self.cpp_info.set_property("pkg_config_name", "coracle")
        self.cpp_info.libs = ["coracle"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "m", "gcc_eh"]
