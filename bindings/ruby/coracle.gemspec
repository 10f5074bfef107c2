# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "libcoracle"
  spec.version = "0.1.0"
  spec.summary = "Containers in process: no daemon, no helper programs"
  spec.authors = ["The authors of Coracle"]
  spec.licenses = ["Apache-2.0", "MIT"]
  spec.required_ruby_version = ">= 3.1"
  # coracle.ffi.h is the header of the library (include/coracle.ffi.h), which the build of the gem puts beside the source.
  spec.files = Dir["lib/**/*.rb", "lib/coracle/coracle.ffi.h", "README.md"]
  spec.add_dependency "fiddle", ">= 1.1"
end
