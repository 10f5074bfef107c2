"""setup.py of the wheel: for every Python 3, and for one kind of machine, because the library is inside."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ["CORACLE_PLATFORM"]


class Native(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=Native, cmdclass={"bdist_wheel": Wheel})
