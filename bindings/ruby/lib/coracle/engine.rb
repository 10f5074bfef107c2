# frozen_string_literal: true

module Coracle
  # An opened engine root, for any number of threads.
  #
  # It has a method for each function of the C interface that takes an engine, named without `coracle_`, with the arguments in the header's
  # order; documents are hashes. A method gives the first "out" argument: `engine.container_inspect("box")` a hash,
  # `engine.container_logs("box", {follow: true})` a stream. Keywords: `timeout` (seconds), `scope`, and a block that gets the records of
  # progress. `engine.call` gives all "out" arguments.
  class Engine
    def initialize(pointer)
      @handle = Handle.new(pointer, "close")
    end

    Library.functions.each do |name, function|
      next unless function.arguments.first&.last == "coracle *" && !%w[close ref].include?(name)

      automatic = ->(argument, type) { type.end_with?("**") || %w[void\ * coracle_op\ * size_t].include?(type) || argument.start_with?("out") }
      names = function.arguments.drop(1).reject { |argument, type| automatic[argument, type] }
      names = names.map { |argument, _| argument.delete_suffix("_json").to_sym }
      define_method(name) do |*values, **how, &progress|
        raise ArgumentError, "#{name} takes #{names.join(', ')}" if values.size > names.size

        Engine.first(call(name, names.zip(values).to_h, **how, &progress), function)
      end
    end

    # Calls a function with its arguments by name; the whole answer: `status`, `code`, `id`, `json`, `session`, `stream`, `fd`.
    def call(name, given = {}, timeout: nil, scope: nil, &progress)
      Call.new(name.to_s, @handle.pointer, given.compact, timeout: timeout, scope: scope, progress: progress).run
    end

    # Begins a call that takes an operation: `result(seconds)` has the answer, `fileno` is for an event loop.
    def begin(name, given = {})
      Call.new(name.to_s, @handle.pointer, given.compact).begin
    end

    # Another handle of the same engine, which stays open when this one is closed.
    def again
      pointer = Library.raw("ref", @handle.pointer)
      raise Library.misuse("the engine is closed, or this process is a fork") if pointer.null?

      Engine.new(pointer)
    end

    # Creates a container of a body of the HTTP API, with no network where the body names none.
    def create(body, name: nil, **how)
      body = body.transform_keys(&:to_s)
      host = { "NetworkMode" => "none" }.merge((body["HostConfig"] || {}).transform_keys(&:to_s))
      answer = call("container_create", { name: name, body: body.merge("HostConfig" => host) }, **how)
      Container.new(self, answer.id, answer.json["Warnings"] || [])
    end

    # The container of that name, id or beginning of an id.
    def container(id)
      Container.new(self, container_inspect(id)["Id"])
    end

    # Loads every image of an archive (a path, a file or an object with `read`): their names.
    def load(archive, **how, &progress)
      call("image_load", { tar: archive }, **how, &progress).json
    end

    # Pulls an image from its registry: its id. platform, such as "linux/arm64", chooses of a list of images; without it: this machine's.
    def pull(ref, platform: nil, auth: nil, **how, &progress)
      return call("image_pull", { ref: ref, auth: auth }, **how, &progress).id unless platform

      call("image_pull_platform", { ref: ref, platform: platform, auth: auth }, **how, &progress).id
    end

    # Builds an image of a directory; query: the parameters of POST /build, so `t: ["name:tag"]`. Its id.
    def build(directory, query = {}, **how, &progress)
      Dir.open(directory) do |dir|
        call("image_build_dir", { query: query, dirfd: dir.fileno }, **how, &progress).id
      end
    end

    # Follows events, until the block ends or without one until `close`: query as of GET /events.
    def events(query = {})
      events = call("events_open", { query: query }).events
      return events unless block_given?

      begin
        yield events
      ensure
        events.close
      end
    end

    # A private connection that speaks the HTTP API.
    def connect
      UNIXSocket.for_fd(call("http_connect").fd)
    end

    # Holds a lease as an IO: a container with the label "coracle.lease" of that name ends when nobody has it any more.
    def lease(name)
      IO.for_fd(call("lease_hold", { name: name }).fd)
    end

    # Closes the handle; containers run on.
    def close
      @handle.close
    end

    # The first "out" argument of an answer; of functions without one whether they changed anything.
    def self.first(answer, function)
      out = function.arguments.drop(1).find { |name, type| type.end_with?("**") && type != "coracle_error **" || name.start_with?("out_") }
      return answer.status != Library::UNCHANGED unless out

      answer[Call::OUTS[out[0]] || Call::HANDLES.fetch(out[1])]
    end
  end

  # A container, by its id; it outlives this object and this program.
  class Container
    attr_reader :id, :warnings

    def initialize(engine, id, warnings = [])
      @engine, @id, @warnings = engine, id, warnings
    end

    def inspect_document
      @engine.container_inspect(@id)
    end

    # Starts it, detached; false where it ran already.
    def start
      @engine.call("container_start", { id: @id }).status != Library::UNCHANGED
    end

    # Starts it with its streams in hand from the first byte on; streams: `stdin`, `stdout`, `stderr` (IOs of the caller), `rows`, `cols`.
    def start_attached(**streams)
      @engine.call("container_start", { id: @id, io: streams }).session || attach
    end

    def attach(stdin: true, stdout: true, stderr: true)
      @engine.call("container_attach", { id: @id, query: { stdin: stdin, stdout: stdout, stderr: stderr } }).session
    end

    # Its stop signal and, `grace` seconds later, SIGKILL; false where it did not run.
    def stop(grace: 10, **how)
      @engine.call("container_stop", { id: @id, grace_ms: (grace * 1000).to_i }, **how).status != Library::UNCHANGED
    end

    def kill(signal = nil)
      @engine.call("container_kill", { id: @id, signal: signal })
      nil
    end

    # Its exit code, 128 + n where signal n ended it.
    def wait(**how)
      @engine.call("container_wait", { id: @id }, **how).code
    end

    # The lines of its log, as a stream; with a block the stream ends with it.
    def logs(follow: false, **query)
      stream = @engine.call("container_logs", { id: @id, query: { follow: follow, stdout: true, stderr: true, **query } }).stream
      return stream unless block_given?

      begin
        stream.each { |line| yield line }
      ensure
        stream.close
      end
    end

    # Runs another process in it to its end: [exit code, stdout, stderr].
    def exec(command, input: "", timeout: nil, **body)
      body = { Cmd: command, AttachStdin: !input.empty?, AttachStdout: true, AttachStderr: true, **body }
      id = @engine.call("exec_create", { id: @id, body: body }).id
      session = @engine.call("exec_start", { id: id, io: {} }).session
      outputs = session.communicate(input, timeout: timeout)
      [session.wait(timeout: timeout), *outputs]
    ensure
      session&.close
    end

    # What it uses, a hash a second; with a block the samples end with it.
    def stats
      stream = @engine.call("container_stats", { id: @id, query: { stream: true } }).stream
      stream.each { |sample| yield JSON.parse(sample.data) }
    ensure
      stream&.close
    end

    def remove(force: false, volumes: false)
      @engine.call("container_remove", { id: @id, flags: (force ? 1 : 0) | (volumes ? 2 : 0) })
      nil
    end
  end
end
