# frozen_string_literal: true

require "fiddle"
require "json"

module Coracle
  # An error of the engine. `kind` is the code's name, such as "NOT_FOUND"; `status` the HTTP status; `errno` the kernel's number or 0;
  # `detail` a hash, with the member "field" where a member of a document is wrong.
  class Error < StandardError
    attr_reader :code, :kind, :status, :errno, :area, :detail

    def initialize(message, code: 0, kind: "", status: 0, errno: 0, area: "", detail: {})
      super(message)
      @code, @kind, @status, @errno, @area, @detail = code, kind, status, errno, area, detail
    end
  end

  class Invalid < Error; end
  class Forbidden < Error; end
  class NotFound < Error; end
  class Conflict < Error; end
  class Unsupported < Error; end
  class Timeout < Error; end
  class Cancelled < Error; end
  class Forked < Error; end
  class Misuse < Error; end

  # The functions of the library with the types that coracle.ffi.h declares.
  module Library
    Function = Struct.new(:name, :answer, :arguments, :call)

    CLASSES = {
      -7001 => Invalid, -7003 => Forbidden, -7004 => NotFound, -7005 => Conflict, -7007 => Unsupported,
      -7011 => Timeout, -7012 => Cancelled, -7014 => Forked, -7016 => Misuse
    }.freeze
    TYPES = {
      "void" => Fiddle::TYPE_VOID, "int32_t" => Fiddle::TYPE_INT, "coracle_status" => Fiddle::TYPE_INT,
      "uint32_t" => -Fiddle::TYPE_INT, "int64_t" => Fiddle::TYPE_LONG_LONG, "uint64_t" => -Fiddle::TYPE_LONG_LONG,
      "size_t" => Fiddle::TYPE_SIZE_T, "uint16_t" => -Fiddle::TYPE_SHORT
    }.freeze
    OK, DONE, AGAIN, UNCHANGED = 0, 1, 2, 3

    module_function

    # The declarations: beside this file where the gem has them, else those of the source or of the system.
    def header
      beside = [File.join(__dir__, "coracle.ffi.h"), File.expand_path("../../../../include/coracle.ffi.h", __dir__)]
      system = %w[/usr/local/include/coracle.ffi.h /usr/include/coracle.ffi.h]
      File.read((beside + system).find { |path| File.exist?(path) } || raise(LoadError, "there is no coracle.ffi.h"))
    end

    # CORACLE_LIBRARY may name the library; else it is the system's.
    def functions
      @functions ||= begin
        library = Fiddle.dlopen(ENV.fetch("CORACLE_LIBRARY", "libcoracle.so.1"))
        header.scan(/^(\w[\w ]*?[ *]+)(coracle_\w+)\((.*)\);$/).to_h do |answer, name, list|
          arguments = list == "void" ? [] : list.split(", ").map { |one| one.match(/\A(.*?)(\w+)\z/).captures.map(&:strip).reverse }
          types = arguments.map { |_, type| TYPES.fetch(type, Fiddle::TYPE_VOIDP) }
          call = Fiddle::Function.new(library[name], types, TYPES.fetch(answer.strip, Fiddle::TYPE_VOIDP))
          [name.delete_prefix("coracle_"), Function.new(name, answer.strip, arguments, call)]
        end
      end
    end

    # Calls a function that has no error argument.
    def raw(name, *arguments)
      functions.fetch(name).call.call(*arguments)
    end

    # Calls a function whose last argument is the error; answers its status or count, or raises the error.
    def call(name, *arguments)
      error = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
      error[0, Fiddle::SIZEOF_VOIDP] = [0].pack("J")
      result = raw(name, *arguments, error)
      raise error_of(result, error.ptr) if result.negative?

      result
    end

    # The exception for a code and its error object, which is freed.
    def error_of(code, error = Fiddle::NULL)
      kind = raw("status_name", code).to_s
      return CLASSES.fetch(code, Error).new("no details", code: code, kind: kind) if error.null?

      text = ->(name) { raw(name, error).to_s.force_encoding("UTF-8").scrub }
      CLASSES.fetch(code, Error).new(
        text["error_message"], code: raw("error_code", error), kind: kind, status: raw("error_http_status", error), errno: raw("error_errno", error),
        area: text["error_area"], detail: JSON.parse(text["error_detail"])
      )
    ensure
      raw("error_free", error) unless error.null?
    end

    # A string that the library gave, which is freed.
    def take_text(pointer)
      return nil if pointer.null?

      pointer.to_s.force_encoding("UTF-8").scrub
    ensure
      raw("free", pointer)
    end

    # A text for the library; a NUL in it would cut it.
    def text(value)
      return value if value.nil?
      raise TypeError, "a text is needed here, and not #{value.class}" unless value.is_a?(String) || value.is_a?(Symbol)
      raise Invalid.new("a text has a NUL in it", code: -7001, kind: "INVALID", status: 400) if value.to_s.include?("\0")

      value.to_s
    end

    def misuse(message)
      Misuse.new(message, code: -7016, kind: "MISUSE", status: 500)
    end
  end

  # A handle of the library, with the function that ends it.
  class Handle
    def initialize(pointer, free)
      @pointer, @free = pointer, free
      @state = [pointer.to_i, Process.pid]
      ObjectSpace.define_finalizer(self, Handle.finalizer(@state, free))
    end

    def self.finalizer(state, free)
      proc { Library.raw(free, state[0]) unless state[0].zero? }
    end

    # The pointer; Misuse after close.
    def pointer
      raise Library.misuse("it was closed before") if @state[0].zero?

      @pointer
    end

    def closed?
      @state[0].zero?
    end

    def close
      at, @state[0] = @state[0], 0
      Library.raw(@free, at) unless at.zero?
    end
  end
end
