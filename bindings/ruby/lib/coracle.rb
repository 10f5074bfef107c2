# frozen_string_literal: true

require_relative "coracle/library"
require_relative "coracle/deadline"
require_relative "coracle/call"
require_relative "coracle/streams"
require_relative "coracle/engine"

# Containers in process: no daemon, no helper programs.
#
#     Coracle.open("/var/lib/app/containers") do |engine|
#       image, = engine.load("busybox.tar")
#       container = engine.create({ Image: image, Cmd: ["echo", "hello"] })
#       session = container.start_attached
#       stdout, = session.communicate
#       puts stdout, container.wait(timeout: 60)
#       container.remove
#     end
module Coracle
  FLAGS = { existing: 1, lenient: 2, ephemeral: 4 }.freeze

  module_function

  # Opens an engine root, a directory; with a block the engine is closed at its end.
  #
  # flags: any of :existing, :lenient, :ephemeral. Further keywords: the members of the header's `config_json`, with underscores.
  def open(root, run_dir: nil, flags: [], **config)
    config = JSON.generate(config.transform_keys { |key| key.to_s.tr("_", "-") })
    run_dir = run_dir&.to_s
    options = [32, run_dir ? Fiddle::Pointer[run_dir].to_i : 0, Fiddle::Pointer[config].to_i, flags.sum { |flag| FLAGS.fetch(flag) }].pack("JJJQ")
    out = Call.pointer
    Library.call("open", root.to_s, options, out)
    engine = Engine.new(out.ptr)
    return engine unless block_given?

    begin
      yield engine
    ensure
      engine.close
    end
  end

  # Everything that an engine on this root needs of the host; opens nothing.
  def host_report(root = "/var/lib/coracle")
    out = Call.pointer
    Library.call("host_report", root.to_s, nil, out)
    JSON.parse(Library.take_text(out.ptr))
  end

  # The library's version: [major, minor, patch].
  def version
    number = Library.raw("version")
    [number >> 16, number >> 8 & 0xFF, number & 0xFF]
  end

  def version_string
    Library.raw("version_string").to_s
  end

  def build_info
    JSON.parse(Library.raw("build_info").to_s)
  end

  def feature?(name)
    Library.raw("has_feature", Library.text(name)) == 1
  end

  def status_name(code)
    Library.raw("status_name", code).to_s
  end
end
