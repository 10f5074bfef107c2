# frozen_string_literal: true

module Coracle
  # A call with its arguments by the names that the header gives them, without `_json`.
  #
  # A call that may last is begun, and Ruby waits for its descriptor: other threads and fibers run, and an exception that comes into the
  # thread (Ctrl-C, Timeout.timeout, Thread#raise) ends the call. A call with records of progress, or whose archive is an object with `read`,
  # comes on the caller's thread.
  class Call
    NONBLOCK, HEARTBEAT_MS = 1, 100
    # size, code, id, json, session, stream: coracle_result.
    RESULT = "Jlx4JJJJ"
    # coracle_io.
    IO_SIZE = 32
    Answer = Struct.new(:status, :code, :id, :json, :session, :stream, :fd, :events, :server, :engine, keyword_init: true)
    OUTS = {
      "out_id" => :id, "out_json" => :json, "out_code" => :code, "out_status" => :code, "out_fd" => :fd
    }.freeze
    HANDLES = {
      "coracle_session **" => :session, "coracle_stream **" => :stream, "coracle_events **" => :events,
      "coracle_http_server **" => :server, "coracle **" => :engine
    }.freeze

    def initialize(name, handle, given, timeout: nil, scope: nil, progress: nil)
      @name, @handle, @given, @timeout, @scope, @progress = name, handle, given, timeout, scope, progress
      @function = Library.functions.fetch(name)
      @kept, @raised = [], nil
    end

    # The answer; raises the error of the call.
    def run
      has_op = @function.arguments.any? { |_, type| type == "coracle_op *" }
      return finish(with_outs { |arguments| Library.call(@name, *arguments) }) unless has_op

      @blocking = !@progress.nil? || callback_source?
      with_op { |op| @blocking ? inline(op) : begun(op) }
    rescue Error => e
      raise @raised || e
    ensure
      @kept.each { |kept| kept.close if kept.respond_to?(:close) && !kept.is_a?(Fiddle::Closure) }
    end

    # Begins a call, whose answer comes by `result`; nothing that happens after this returns is missed.
    def begin
      @op = Call.new_op(NONBLOCK)
      Library.call(@name, *arguments(@op.pointer))
      self
    end

    # The answer of a call that was begun; Timeout when `timeout` seconds passed, and the call goes on.
    def result(timeout = nil)
      await(@op, Deadline.of(timeout))
    end

    def cancel
      @op.cancel
    end

    # The descriptor of a call that was begun, readable when `result` has the answer at once.
    def fileno
      Library.raw("op_fd", @op.pointer)
    end

    def self.new_op(flags)
      out = Call.pointer
      Library.call("op_new", flags, out)
      Operation.new(out.ptr, "op_free")
    end

    def self.pointer(bytes = Fiddle::SIZEOF_VOIDP)
      memory = Fiddle::Pointer.malloc(bytes, Fiddle::RUBY_FREE)
      memory[0, bytes] = "\0" * bytes
      memory
    end

    private

    def with_op
      op = Call.new_op(@blocking ? 0 : NONBLOCK)
      Library.raw("op_set_timeout", op.pointer, (@timeout * 1000).to_i) if @timeout
      @scope&.enter(op)
      yield op
    ensure
      @scope&.leave(op)
      op&.close
    end

    def inline(op)
      watch = watcher
      Library.raw("op_set_progress", op.pointer, watch, nil, nil, HEARTBEAT_MS)
      finish(with_outs(op.pointer) { |arguments| Library.call(@name, *arguments) })
    end

    def watcher
      closure = Class.new(Fiddle::Closure) do
        attr_accessor :work

        def call(_user, record)
          work.call(record)
        end
      end.new(Fiddle::TYPE_INT, [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP])
      closure.work = ->(record) { guarded(1) { @progress&.call(JSON.parse(record.to_s)) unless record.null?; 0 } }
      @kept << closure
      closure
    end

    # Nothing may jump over the library's frames: an exception of a callback is kept, and comes out of the call. So does an error for a
    # `break`, a `throw` or the end of the thread, which are no exceptions. The return in `ensure` stops each of them.
    def guarded(failed)
      answer = nil
      answer = yield
    rescue Exception => e # rubocop:disable Lint/RescueException
      @raised = e
    ensure
      @raised ||= LocalJumpError.new("a block or a read of a call was left by break, throw or the end of its thread") unless answer
      return @raised ? failed : answer # rubocop:disable Lint/EnsureReturn
    end

    def begun(op)
      Library.call(@name, *arguments(op.pointer))
      await(op, nil)
    rescue Error
      raise
    rescue Exception # rubocop:disable Lint/RescueException
      op.cancel
      raise
    end

    def await(op, deadline)
      io = IO.for_fd(Library.raw("op_fd", op.pointer), autoclose: false)
      loop do
        memory = Call.pointer(48)
        memory[0, 8] = [48].pack("J")
        status = Library.call("op_result", op.pointer, memory)
        return taken(status, memory) unless status == Library::AGAIN

        left = Deadline.left(deadline)
        raise Timeout.new("the call did not end in time", code: -7011, kind: "TIMEOUT", status: 500) if left&.zero?

        io.wait_readable(left)
      end
    end

    def taken(status, memory)
      _, code, id, json, session, stream = memory[0, 48].unpack(RESULT)
      at = ->(address) { Fiddle::Pointer.new(address) }
      finish(Answer.new(
        status: status, code: code, id: Library.take_text(at[id]), json: Library.take_text(at[json]),
        session: session.zero? ? nil : at[session], stream: stream.zero? ? nil : at[stream]
      ))
    end

    # Gives a call places for its "out" arguments, and takes them.
    def with_outs(op = nil)
      @outs = {}
      status = yield arguments(op, outs: true)
      answer = Answer.new(status: status, code: -1)
      @outs.each do |member, (memory, type)|
        answer[member] =
          if type == "int32_t *" then memory[0, 4].unpack1("l")
          elsif type.start_with?("char") then Library.take_text(memory.ptr)
          else memory.ptr.null? ? nil : memory.ptr
          end
      end
      answer
    end

    def finish(answer)
      answer.json = JSON.parse(answer.json) if answer.json
      answer.session &&= Session.new(answer.session)
      answer.stream &&= Stream.new(answer.stream)
      answer.events &&= Events.new(answer.events)
      answer.server &&= Server.new(answer.server)
      answer
    end

    def callback_source?
      source = @given[:tar] || @given[:read]
      @function.arguments.any? { |_, type| type == "coracle_read_fn" } && !source.is_a?(String) && !descriptor(source)
    end

    # The number of a file's descriptor; an object such as StringIO has none.
    def descriptor(value)
      value.fileno if value.respond_to?(:fileno)
    end

    def arguments(op, outs: false)
      unknown = @given.keys - @function.arguments.map { |name, _| name.delete_suffix("_json").to_sym } - [:tar]
      raise ArgumentError, "#{@name} has no argument #{unknown.first}" unless unknown.empty?

      @function.arguments[0..-2].each_with_index.map { |(name, type), at| argument(name, type, at, op, outs) }
    end

    def argument(name, type, at, op, outs)
      return @handle if at.zero? && type =~ /\A(const )?coracle\w* \*\z/
      return op if type == "coracle_op *"
      return out(name, type, outs) if type.end_with?("**") || (type == "int32_t *" && name.start_with?("out"))

      value = @given[name.delete_suffix("_json").to_sym]
      case type
      when "coracle_read_fn" then source(@given[:tar] || value)
      when "void *" then @user
      when "const coracle_io *" then value && io(value)
      when "const void *", "const int32_t *" then @bytes = value.is_a?(Array) ? value.pack("l*") : value.to_s
      when "size_t" then name == "fd_count" ? @bytes.bytesize / 4 : @bytes.bytesize
      when "const char *" then name.end_with?("_json") ? value && JSON.generate(value) : Library.text(value)
      else value == true ? 1 : Integer(value || 0)
      end
    end

    def out(name, type, outs)
      return nil unless outs

      member = OUTS[name] || HANDLES.fetch(type)
      @outs[member] = [Call.pointer, type]
      @outs[member].first
    end

    def io(value)
      fds = %i[stdin stdout stderr].map { |stream| value[stream]&.fileno || -1 }
      [IO_SIZE, 0, *fds, value.fetch(:rows, 0), value.fetch(:cols, 0)].pack("JQlllSS")
    end

    # An archive: a path, a file, or an object with `read`.
    def source(value)
      value = File.open(value, "rb").tap { |file| @kept << file } if value.is_a?(String)
      if (@user = descriptor(value))
        return Library.functions.fetch("read_fd").call.ptr
      end
      raise TypeError, "an archive is a path, a file or an object with read, and not #{value.class}" unless value.respond_to?(:read)

      reader(value)
    end

    def reader(value)
      closure = Class.new(Fiddle::Closure) do
        attr_accessor :work

        def call(_user, buffer, length)
          work.call(buffer, length)
        end
      end.new(Fiddle::TYPE_LONG_LONG, [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T])
      closure.work = lambda do |buffer, length|
        guarded(-1) do
          piece = value.read(length).to_s
          raise ArgumentError, "read gave more than it was asked for" if piece.bytesize > length

          buffer[0, piece.bytesize] = piece
          piece.bytesize
        end
      end
      @kept << closure
      closure
    end
  end

  # An operation of the library.
  class Operation < Handle
    def cancel
      Library.raw("op_cancel", pointer)
    end
  end

  # Cancels calls, from any thread: `engine.container_wait("x", scope: scope)`.
  class Scope
    def initialize
      @lock, @ops, @cancelled = Mutex.new, [], false
    end

    # Ends the calls under way, and every later one with this scope.
    def cancel
      @lock.synchronize do
        @cancelled = true
        @ops.each(&:cancel)
      end
    end

    def enter(op)
      @lock.synchronize do
        @ops << op
        op.cancel if @cancelled
      end
    end

    def leave(op)
      @lock.synchronize { @ops.delete(op) }
    end
  end
end
