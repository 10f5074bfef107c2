# frozen_string_literal: true

require "io/wait"
require "socket"

module Coracle
  # What comes out of a handle bit by bit. Reads wait for its descriptor, and then last for a moment.
  module Waiting
    GLANCE_MS = 20

    def close
      @handle.close
    end

    def closed?
      @handle.closed?
    end

    private

    def ready(function, deadline)
      fd = Library.raw(function, @handle.pointer)
      raise Library.error_of(fd) if fd.negative? && fd != -7007
      return if fd.negative?

      left = Deadline.left(deadline)
      IO.for_fd(fd, autoclose: false).wait_readable(left) || raise(late)
    end

    def late
      Timeout.new("nothing came in time", code: -7011, kind: "TIMEOUT", status: 500)
    end

    # Calls with an operation that lasts for a moment, until there is something.
    def glance(deadline)
      loop do
        ready("stream_fd", deadline)
        op = Call.new_op(0)
        begin
          Library.raw("op_set_timeout", op.pointer, GLANCE_MS)
          return yield op.pointer
        rescue Timeout
          next
        ensure
          op.close
        end
      end
    end
  end

  # An attached process. `stdin`, `stdout`, `stderr` are IOs, each nil where it is not attached; on a terminal all output is in `stdout`.
  class Session
    attr_reader :stdin, :stdout, :stderr

    def initialize(pointer)
      @handle = Handle.new(pointer, "session_free")
      take = ->(channel, kind) { (fd = Library.raw("session_take_fd", pointer, channel)).negative? ? nil : kind.for_fd(fd) }
      @stdin, @stdout, @stderr = take[0, Socket], take[1, IO], take[2, IO]
      @reading = Mutex.new
    end

    # The next piece of output, [:stdout or :stderr, bytes]; nil when both have ended.
    def read(timeout: nil, scope: nil)
      raise Library.misuse("another thread reads") unless @reading.try_lock

      begin
        @handle.pointer
        Readers.next_piece({ stdout: @stdout, stderr: @stderr }, timeout, scope)
      ensure
        @reading.unlock
      end
    end

    # Both outputs to their ends, after `input` was written: [stdout, stderr]. `timeout` bounds the whole.
    def communicate(input = "", timeout: nil)
      deadline = Deadline.of(timeout)
      writer = Thread.new { feed(input) }
      outputs = { stdout: +"", stderr: +"" }
      while (piece = read(timeout: Deadline.left(deadline)))
        outputs[piece[0]] << piece[1]
      end
      raise Readers.silence unless writer.join(Deadline.left(deadline))

      outputs.values
    ensure
      writer&.kill
    end

    def write(data)
      @handle.pointer
      raise Library.misuse("the session has no stdin") unless @stdin

      @stdin.write(data)
    rescue SystemCallError => e
      raise Error.new("the process ended", code: -7009, kind: "IO", status: 500, errno: e.errno)
    end

    # Ends the process's stdin.
    def close_stdin
      # The library tells the process's keeper before the descriptor goes: else it would take that for a detached session.
      Library.call("session_close_stdin", @handle.pointer)
      @stdin&.close
      @stdin = nil
    end

    # Waits for the process's end: its exit code, 128 + n where signal n ended it.
    def wait(timeout: nil, scope: nil)
      Call.new("session_wait", @handle.pointer, {}, timeout: timeout, scope: scope).run.code
    end

    def resize(rows, cols)
      Library.call("session_resize", @handle.pointer, rows, cols)
    end

    # Detaches: the process runs on.
    def close
      [@stdin, @stdout, @stderr].each { |io| io.close if io && !io.closed? }
      @handle.close
    end

    private

    def feed(input)
      return unless @stdin

      write(input) unless input.empty?
      close_stdin
    rescue Error
      nil # The process ended before it read everything.
    end
  end

  # Reads of IOs that a scope may cancel.
  module Readers
    module_function

    def silence
      Timeout.new("no output came in time", code: -7011, kind: "TIMEOUT", status: 500)
    end

    def next_piece(outputs, timeout, scope)
      deadline = Deadline.of(timeout)
      scoped(scope) do |cancel|
        loop do
          open = outputs.reject { |_, io| io.nil? || io.closed? }
          return nil if open.empty?

          left = Deadline.left(deadline)
          found = IO.select(open.values + [cancel].compact, nil, nil, left)&.first
          raise silence unless found
          raise Cancelled.new("the operation was cancelled", code: -7012, kind: "CANCELLED", status: 500) if found.include?(cancel)

          name = open.key(found.first)
          begin
            return [name, open[name].readpartial(65_536)]
          rescue EOFError
            open[name].close
          end
        end
      end
    end

    # An operation's descriptor of the library is for calls; here a pipe stands for it.
    def scoped(scope)
      return yield(nil) unless scope

      reader, writer = IO.pipe
      waiting = Waiter.new(writer)
      scope.enter(waiting)
      yield reader
    ensure
      scope&.leave(waiting) if waiting
      [reader, writer].compact.each(&:close)
    end

    # Stands in a scope for a read.
    Waiter = Struct.new(:writer) do
      def cancel
        writer.write_nonblock(".", exception: false)
      end
    end
  end

  # Bytes or records out of the engine: a log, samples, an archive, the body of an answer.
  class Stream
    include Enumerable
    include Waiting

    Record = Struct.new(:channel, :time_ns, :data) do
      def text
        data.dup.force_encoding("UTF-8").scrub.chomp
      end
    end

    def initialize(pointer)
      @handle = Handle.new(pointer, "stream_free")
    end

    # Up to `size` bytes, nil at the end; without a size all to the end.
    def read(size = nil, timeout: nil)
      unless size
        whole = +""
        while (piece = read(65_536, timeout: timeout))
          whole << piece
        end
        return whole
      end
      buffer = Call.pointer(size)
      count = glance(Deadline.of(timeout)) { |op| Library.call("stream_read", @handle.pointer, buffer, size, op) }
      count.zero? ? nil : buffer[0, count]
    end

    # The next record, such as a line of a log with `channel`, `time_ns`, `text`; nil at the end.
    def next(timeout: nil)
      frame = Call.pointer(40)
      frame[0, 8] = [40].pack("J")
      status = glance(Deadline.of(timeout)) { |op| Library.call("stream_next", @handle.pointer, op, frame) }
      return nil if status == Library::DONE

      _, channel, time, data, length = frame[0, 40].unpack("Jlx4qJJ")
      Record.new({ 1 => :stdout, 2 => :stderr }[channel], time, length.zero? ? "" : Fiddle::Pointer.new(data)[0, length])
    end

    def each
      return to_enum unless block_given?

      while (record = self.next)
        yield record
      end
    end

    # How many lines of a log were deleted before they were read.
    def lost
      Library.raw("stream_lost", @handle.pointer)
    end

    # The descriptor, readable while there may be something.
    def fileno
      fd = Library.raw("stream_fd", @handle.pointer)
      fd.negative? ? raise(Library.error_of(fd)) : fd
    end
  end

  # Events of a root, as hashes.
  class Events
    include Enumerable
    include Waiting

    def initialize(pointer)
      @handle = Handle.new(pointer, "events_free")
    end

    # The next event; nil when `timeout` seconds passed, or at the end (`until`).
    def next(timeout: nil)
      deadline = Deadline.of(timeout)
      out = Call.pointer
      loop do
        status = Library.call("events_next", @handle.pointer, 0, out)
        return nil if status == Library::DONE
        return JSON.parse(out.ptr.to_s.force_encoding("UTF-8")) unless status == Library::AGAIN

        ready("events_fd", deadline)
      end
    rescue Timeout
      nil
    end

    def each
      return to_enum unless block_given?

      while (event = self.next)
        yield event
      end
    end

    def fileno
      fd = Library.raw("events_fd", @handle.pointer)
      fd.negative? ? raise(Library.error_of(fd)) : fd
    end
  end

  # A server of the HTTP API.
  class Server
    include Waiting

    def initialize(pointer)
      @handle = Handle.new(pointer, "http_server_free")
    end

    def addresses
      Call.new("http_server_addresses", @handle.pointer, {}).run.json
    end

    # Accepts nothing any more; answers under way have so many milliseconds.
    def shutdown(grace_ms: 2000)
      Call.new("http_server_shutdown", @handle.pointer, { grace_ms: grace_ms }).run
      nil
    end
  end
end
