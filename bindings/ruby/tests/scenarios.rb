# frozen_string_literal: true

# Runs the scenarios that all bindings share (bindings/scenarios) by the Ruby binding. Environment: as of the runner of Python.

require "coracle"
require "fileutils"
require "json"
require "net/http"
require "rubygems/package"
require "stringio"
require "tmpdir"

LIST = JSON.parse(File.read(ENV.fetch("CORACLE_SCENARIOS")))
FEATURES = %w[dynamic fork].freeze
LONG = Integer(ENV.fetch("CORACLE_TEST_SECONDS", "300"))
# Scenarios that cannot be run in Ruby, with the reasons.
LEFT_OUT = {
  "the log sink gets the library's messages and ends" => "fiddle's callbacks come on Ruby's threads alone",
  "a level of the log that does not exist is refused" => "fiddle's callbacks come on Ruby's threads alone"
}.freeze

class Wrong < StandardError; end
class Caller < StandardError; end

# An archive whose read fails.
class Broken
  def read(_count)
    raise Caller, "the source is broken"
  end
end

MATCHERS = {
  "$has" => ->(value, got) { got.is_a?(String) && got.include?(value) },
  "$above" => ->(value, got) { got.is_a?(Numeric) && got > value },
  "$len" => ->(value, got) { (got || []).size == value },
  "$len_above" => ->(value, got) { (got || []).size > value },
  "$not" => ->(value, got) { !got.nil? && got != value },
  "$one_of" => ->(value, got) { value.include?(got) },
  "$contains" => ->(value, got) { got.is_a?(Array) && got.any? { |one| (match(value, one) || true) rescue false } }
}.freeze

def match(expected, got, where = "result")
  case expected
  when Hash
    if expected.keys.any? { |key| key.start_with?("$") }
      expected.each { |key, value| MATCHERS.fetch(key).call(value, got) || raise(Wrong, "#{where}: wanted #{key} #{value}, got #{got.inspect[0, 500]}") }
    else
      raise Wrong, "#{where}: wanted an object, got #{got.inspect[0, 500]}" unless got.is_a?(Hash)

      expected.each { |key, value| match(value, got[key], "#{where}.#{key}") }
    end
  when Array
    raise Wrong, "#{where}: wanted #{expected}, got #{got.inspect[0, 500]}" unless got.is_a?(Array) && got.size == expected.size

    expected.zip(got).each { |one, other| match(one, other, where) }
  else
    raise Wrong, "#{where}: wanted #{expected.inspect}, got #{got.inspect[0, 500]}" unless expected == got
  end
  nil
end

def tar_of(files)
  out = StringIO.new("".b)
  Gem::Package::TarWriter.new(out) { |tar| files.each { |name, text| tar.add_file_simple(name, 0o644, text.bytesize) { |file| file.write(text) } } }
  out.rewind
  out
end

def files_of(stream)
  found = {}
  Gem::Package::TarReader.new(StringIO.new(stream.read)).each do |entry|
    found[entry.full_name] = entry.read.to_s.dup.force_encoding("UTF-8").scrub if entry.file? && entry.header.size < 4096
  end
  found
ensure
  stream.close
end

def parsed(body)
  JSON.parse(body)
rescue JSON::ParserError
  body.strip
end

def asked(socket, target)
  socket.write("GET #{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
  buffered = Net::BufferedIO.new(socket)
  answer = Net::HTTPResponse.read_new(buffered)
  answer.reading_body(buffered, true) { { "status" => answer.code.to_i, "body" => parsed(answer.body) } }
  { "status" => answer.code.to_i, "body" => parsed(answer.body) }
ensure
  socket.close
end

# A scenario on a root of its own.
class Run
  # Steps whose other members are the arguments of the function of that name, for an engine.
  DIRECT = %w[
    engine_info engine_version engine_metrics engine_disk_usage engine_reload root_verify root_leftovers root_sweep root_import_docker
    container_kill container_pause container_unpause container_prune container_list container_explain container_top container_rename
    container_stat_path container_changes exec_inspect image_list image_inspect image_history image_tag image_prune build_prune
    image_push registry_inspect registry_auth volume_list volume_inspect volume_remove volume_prune network_list network_inspect
    network_connect network_disconnect network_remove network_prune network_repair network_release plugin_list plugin_inspect
    plugin_privileges plugin_enable plugin_set plugin_upgrade root_copy image_search
  ].freeze
  MEMBERS = %w[do on of as error status detail has expect save timeout_ms scope progress refuse retry needs].freeze

  attr_accessor :values, :pieces

  def initialize(directory)
    @directory = directory
    @values = LIST["values"].merge("dir" => directory, "archive" => ENV.fetch("CORACLE_TEST_IMAGE"), "registry" => ENV.fetch("CORACLE_TEST_REGISTRY"))
    @engine = Coracle.open("#{directory}/root", run_dir: "#{directory}/run", durability: "off")
    @things, @pieces = { "engine" => @engine }, {}
    @values["image"] = @engine.load(ENV.fetch("CORACLE_TEST_IMAGE")).first
  end

  def end
    @engine.container_list({ all: true }).each do |found|
      Coracle::Container.new(@engine, found["Id"]).remove(force: true, volumes: true)
    rescue Coracle::NotFound
      next
    end
    @engine.plugin_list.each { |plugin| @engine.call("plugin_remove", { name: plugin["Id"], flags: 1 }) }
    @engine.network_prune
    @engine.network_release
    @things.each_value { |thing| thing.close if thing.respond_to?(:close) }
  end

  def steps(steps)
    steps.each do |step|
      next unless (step.fetch("needs", []) - FEATURES).empty?

      step["use"] ? steps(LIST["fragments"][step["use"]]) : repeated(step)
    end
  end

  def repeated(step)
    deadline = Time.now + LONG
    begin
      once(step)
    rescue Wrong => e
      raise Wrong, "#{step.to_json[0, 200]}: #{e.message}" if !step["retry"] || Time.now > deadline

      sleep 0.05
      retry
    end
  end

  def once(step)
    given = step.to_h { |key, value| [key, key == "steps" ? value : filled(value)] }
    begin
      @how = {}
      how = {}
      how[:timeout] = given["timeout_ms"] / 1000.0 if given["timeout_ms"]
      how[:scope] = @things[given["scope"]] if given["scope"]
      result = perform(given, how, told(given))
    rescue Coracle::Error, Caller, TypeError, ArgumentError => e
      return failed(given, e)
    end
    raise Wrong, "wanted #{given['error']}, got #{result.inspect[0, 300]}" if given["error"]

    match(given["expect"], result) if given.key?("expect")
    given.fetch("save", {}).each { |name, path| @values[name] = path.split(".").reduce(result) { |value, part| value[part] } }
  end

  def failed(given, problem)
    code = case problem
           when Coracle::Error then problem.kind
           when Caller then "CALLER"
           else "TYPE"
           end
    raise Wrong, "wanted #{given['error'] || 'success'}, got #{code}: #{problem.message}\n#{problem.backtrace.first(4).join("\n")}" unless code == given["error"]

    match(given["status"], problem.status, "status") if given["status"]
    match(given["detail"], problem.detail, "detail") if given["detail"]
    raise Wrong, "wanted #{given['has']} in #{problem.message}" if given["has"] && !problem.message.include?(given["has"])
  end

  def filled(value)
    case value
    when Hash then value.transform_values { |one| filled(one) }
    when Array then value.map { |one| filled(one) }
    when String then filled_text(value)
    else value
    end
  end

  def filled_text(value)
    if value.start_with?("$") && @values.key?(value[1..])
      found = @values[value[1..]]
      return LIST["values"].key?(value[1..]) && found.is_a?(Hash) ? filled(found) : found
    end
    @values.select { |_, one| one.is_a?(String) }.sort_by { |name, _| -name.size }.each do |name, one|
      value = value.gsub("$$#{name}", "\u0001").gsub("$#{name}") { one }.gsub("\u0001", "$$#{name}")
    end
    value.gsub("$$", "$")
  end

  def told(given)
    return proc { raise Caller, "refused" } if given["refuse"]
    return nil unless given["progress"]

    records = @values[given["progress"]] = []
    proc { |record| records << record }
  end

  def source(given)
    return Broken.new if given["broken"]
    return given["path"] if given["path"] && given["do"] == "image_load"

    given["bytes"] ? StringIO.new(given["bytes"].is_a?(Hash) ? given["bytes"]["repeat"] * given["bytes"]["times"] : given["bytes"]) : tar_of(given["files"])
  end

  def on(given)
    @things.fetch(given["on"] || "engine")
  end

  def perform(given, how, told)
    name = given["do"]
    return send("do_#{name}", given, how, told) if respond_to?("do_#{name}")
    raise Wrong, "no step #{name}" unless DIRECT.include?(name)

    arguments = given.except(*MEMBERS).transform_keys(&:to_sym)
    answer = on(given).call(name, arguments, **how, &told)
    name == "container_changes" && answer.json.nil? ? [] : answer.json
  end

  def call(given, how, name, arguments, &told)
    on(given).call(name, arguments, **how, &told)
  end

  # ---- the scenario's own ----

  def do_scope(given, *) = @things[given["as"]] = Coracle::Scope.new
  def do_cancel(given, *) = @things[given["of"]].cancel
  def do_sleep(given, *) = sleep(given["ms"] / 1000.0)
  def do_value(given, *) = given["value"]
  def do_file_exists(given, *) = File.exist?(given["path"])

  def do_spawn(given, *)
    @things[given["as"]] = Thread.new { steps(given["steps"]) }.tap { |thread| thread.report_on_exception = false }
  end

  def do_join(given, *)
    @things[given["of"]].join(LONG) || raise(Wrong, "the thread does not end")
  end

  def do_parallel(given, *)
    threads = Array.new(given["times"]) do
      run = clone
      run.values, run.pieces = @values.dup, {}
      Thread.new { run.steps(given["steps"]) }
    end
    threads.each { |thread| thread.join(LONG) || raise(Wrong, "a thread does not end") }
  end

  def do_fork(given, *)
    reader, writer = IO.pipe
    child = fork do
      text = begin
        steps(given["steps"])
        "good"
      rescue Exception => e # rubocop:disable Lint/RescueException
        e.full_message(highlight: false)[-4000..] || e.full_message
      end
      writer.write(text)
      writer.close
      exit!(0)
    end
    writer.close
    text = reader.read
    Process.wait(child)
    raise Wrong, text unless text == "good"
  end

  # ---- the library, a root ----

  def do_version(*)
    major, minor, patch = Coracle.version
    { "text" => Coracle.version_string, "number" => major << 16 | minor << 8 | patch }
  end

  def do_build_info(*) = Coracle.build_info
  def do_has_feature(given, *) = Coracle.feature?(given["name"])
  def do_status_name(given, *) = Coracle.status_name(given["code"])
  def do_host_report(given, *) = Coracle.host_report(given["root"])

  def do_open(given, *)
    config = given.fetch("config", {}).transform_keys { |key| key.tr("-", "_").to_sym }
    @things[given["as"]] = Coracle.open(given["root"], run_dir: given["run_dir"], flags: given.fetch("flags", []).map(&:to_sym), **config)
  end

  def do_ref(given, *) = @things[given["as"]] = on(given).again
  def do_close(given, *) = on(given).close

  # ---- containers ----

  def do_container_create(given, how, _)
    answer = call(given, how, "container_create", { name: given["name"], body: given["body"] })
    { "id" => answer.id, "Warnings" => answer.json["Warnings"] }
  end

  def do_container_start(given, how, _)
    return { "changed" => call(given, how, "container_start", { id: given["id"] }).status != 3 } unless given["attach"]

    @things[given["as"]] = Coracle::Container.new(on(given), given["id"]).start_attached(rows: given.fetch("rows", 0), cols: given.fetch("cols", 0))
    { "changed" => true }
  end

  def do_container_attach(given, *)
    streams = given["query"] ? %w[stdin stdout stderr].to_h { |name| [name.to_sym, !!given["query"][name]] } : {}
    @things[given["as"]] = Coracle::Container.new(on(given), given["id"]).attach(**streams)
  end

  def do_container_stop(given, how, _)
    { "changed" => call(given, how, "container_stop", { id: given["id"], grace_ms: given["grace_ms"] }).status != 3 }
  end

  def do_container_stop_with(given, how, _)
    { "changed" => call(given, how, "container_stop_with", { id: given["id"], how: given["how"] }).status != 3 }
  end

  def do_container_restart(given, how, _) = call(given, how, "container_restart", { id: given["id"], grace_ms: given["grace_ms"] })
  def do_container_restart_with(given, how, _) = call(given, how, "container_restart_with", { id: given["id"], how: given["how"] })
  def do_container_inspect(given, *) = on(given).container_inspect(given["id"], given["size"])

  def do_container_wait(given, how, _)
    { "code" => call(given, how, "container_wait", { id: given["id"], condition: given["condition"] }).code }
  end

  def do_begin_wait(given, *)
    @things[given["as"]] = on(given).begin("container_wait", { id: given["id"], condition: given["condition"] })
  end

  def do_pending_result(given, *) = { "code" => @things[given["of"]].result(LONG).code }

  def do_container_pidfd(given, *)
    file = IO.for_fd(on(given).container_pidfd(given["id"]))
    @things[given["as"] || "pidfd"] = file
    { "ended" => !IO.select([file], nil, nil, 0).nil? }
  end

  def do_pidfd_wait(given, *)
    IO.select([@things[given["of"]]], nil, nil, LONG) || raise(Wrong, "the descriptor does not become readable")
  end

  def do_container_remove(given, how, _)
    call(given, how, "container_remove", { id: given["id"], flags: (given["force"] ? 1 : 0) | (given["volumes"] ? 2 : 0) })
  end

  def do_container_update(given, how, _) = call(given, how, "container_update", { id: given["id"], body: given["body"] }).json["Warnings"] || []

  def do_container_stats(given, *)
    query = given["count"] ? { stream: true } : { stream: false, "one-shot": true }
    stream = on(given).container_stats(given["id"], query)
    stream.fileno
    Array.new(given["count"] || 1) { JSON.parse(stream.next.data) }
  ensure
    stream&.close
  end

  def do_container_get_archive(given, *)
    { "files" => files_of(on(given).container_get_archive(given["id"], given["path"])), "stat" => on(given).container_stat_path(given["id"], given["path"]) }
  end

  def do_container_put_archive(given, how, _) = call(given, how, "container_put_archive", { id: given["id"], path: given["path"], tar: source(given) })
  def do_container_export(given, *) = { "files" => files_of(on(given).container_export(given["id"])) }
  def do_container_commit(given, *) = { "id" => on(given).container_commit(given["id"], given["query"]) }
  def do_lease_hold(given, *) = @things[given["as"]] = on(given).lease(given["name"])
  def do_lease_free(given, *) = @things[given["of"]].close

  # ---- streams ----

  def do_session_read(given, how, _)
    session = @things[given["of"]]
    seen = @pieces[given["of"]] ||= { stdout: +"", stderr: +"" }
    found = -> { given["until"] && seen.any? { |name, text| [nil, name.to_s].include?(given["channel"]) && text.include?(given["until"]) } }
    until found.call
      piece = session.read(**how) || break
      seen[piece[0]] << piece[1]
    end
    raise Wrong, "the output ended without #{given['until']}: #{seen}" if given["until"] && !found.call

    seen.to_h { |name, text| [name.to_s, text.dup.force_encoding("UTF-8").scrub] }
  end

  def do_session_write(given, *) = { "count" => @things[given["of"]].write(given["data"]) }
  def do_session_close_stdin(given, *) = @things[given["of"]].close_stdin

  def do_session_streams(given, *)
    input = given["input"].is_a?(Hash) ? given["input"]["repeat"] * given["input"]["times"] : given["input"].to_s
    stdout, stderr = @things[given["of"]].communicate(input, timeout: LONG)
    { "stdout" => stdout, "stderr" => stderr }
  end

  def do_session_fd(given, *) = !@things[given["of"]].send(given["channel"]).nil?
  def do_session_resize(given, *) = @things[given["of"]].resize(given["rows"], given["cols"])
  def do_session_wait(given, how, _) = { "code" => @things[given["of"]].wait(**how) }
  def do_session_free(given, *) = @things[given["of"]].close
  alias do_stream_free do_session_free
  alias do_events_free do_session_free
  alias do_http_server_free do_session_free

  def do_exec_create(given, *) = { "id" => on(given).exec_create(given["id"], given["body"]) }

  def do_exec_start(given, *)
    io = given["attach"] ? {} : nil
    session = on(given).exec_start(given["id"], io)
    @things[given["as"]] = session if io
  end

  def do_exec_wait(given, how, _) = { "code" => call(given, how, "exec_wait", { id: given["id"] }).code }

  def do_container_logs(given, *)
    query = given.fetch("query", {})
    query = query.merge("stdout" => true, "stderr" => true) unless query["stdout"] || query["stderr"]
    stream = on(given).container_logs(given["id"], query)
    stream.map { |line| { "channel" => line.channel.to_s, "text" => line.text } }
  ensure
    stream&.close
  end

  def do_logs_open(given, *)
    @things[given["as"]] = on(given).container_logs(given["id"], { "stdout" => true, "stderr" => true }.merge(given["query"]))
  end

  def do_logs_next(given, how, _)
    line = @things[given["of"]].next(**how)
    { "channel" => line.channel.to_s, "text" => line.text }
  end

  def do_stream_fd(given, *) = @things[given["of"]].fileno >= 0
  alias do_events_fd do_stream_fd
  def do_stream_lost(given, *) = @things[given["of"]].lost
  def do_events_open(given, *) = @things[given["as"]] = on(given).events(given["query"])

  def do_events_next(given, how, _)
    @things[given["of"]].next(**how) || (how[:timeout] ? { "again" => true } : { "done" => true })
  end

  def do_events_until(given, *)
    actions = []
    until actions.include?(given["action"])
      event = @things[given["of"]].next(timeout: LONG) || raise(Wrong, "the events end at #{actions}")
      actions << event["Action"]
    end
    actions
  end

  # ---- images, volumes, networks, plugins ----

  def do_image_remove(given, *) = on(given).image_remove(given["ref"], (given["force"] ? 1 : 0) | (given["no_prune"] ? 2 : 0))
  def do_image_load(given, how, told) = on(given).load(source(given), **how, &told)

  def do_image_save(given, *)
    stream = on(given).image_save({ names: given["names"], layout: given["layout"] })
    bytes = stream.read
    File.binwrite(given["file"], bytes) if given["file"]
    { "bytes" => bytes.bytesize }
  ensure
    stream&.close
  end

  def do_image_import(given, how, told) = { "id" => call(given, how, "image_import", { query: given["query"], tar: source(given) }, &told).id }
  def do_image_build(given, how, told) = { "id" => call(given, how, "image_build", { query: given["query"], tar: source(given) }, &told).id }

  def do_image_build_dir(given, how, told)
    Dir.mktmpdir("context", @directory) do |dir|
      given["files"].each { |name, text| File.write("#{dir}/#{name}", text) }
      { "id" => on(given).build(dir, given["query"], **how, &told) }
    end
  end

  def do_image_pull(given, how, told) = { "id" => on(given).pull(given["ref"], platform: given["platform"], **how, &told) }
  def do_volume_create(given, *) = on(given).call("volume_create", { body: given["body"] }).json
  def do_network_create(given, *) = { "id" => on(given).network_create(given["body"]) }
  def do_plugin_pull(given, how, told) = { "id" => call(given, how, "plugin_pull", { body: given["body"] }, &told).id }
  def do_plugin_disable(given, *) = on(given).plugin_disable(given["name"], given["force"] ? 1 : 0)
  def do_plugin_remove(given, *) = on(given).plugin_remove(given["name"], given["force"] ? 1 : 0)

  # ---- HTTP ----

  def do_http_request(given, how, _)
    arguments = { method: given["method"], target: given["target"], headers: given["headers"] || {}, body: given["body"] ? given["body"].to_json : "" }
    answer = call(given, how, "http_request", arguments)
    { "status" => answer.code, "body" => parsed(answer.stream.read) }
  ensure
    answer&.stream&.close
  end

  def do_http_connect(given, *) = asked(on(given).connect, given["target"])
  def do_http_get_unix(given, *) = asked(UNIXSocket.new(given["path"]), given["target"])
  def do_http_serve(given, *) = @things[given["as"]] = on(given).call("http_serve", { options: given["options"], fds: [] }).server
  def do_http_server_addresses(given, *) = @things[given["of"]].addresses
  def do_http_server_shutdown(given, *) = @things[given["of"]].shutdown(grace_ms: given["grace_ms"])
end

def run(scenario)
  directory = Dir.mktmpdir("scn-")
  one = Run.new(directory)
  one.steps(scenario["steps"])
  nil
rescue StandardError => e
  e.is_a?(Wrong) ? e.message : e.full_message(highlight: false)
ensure
  one&.end
  FileUtils.rm_rf(directory)
end

passed = failed = 0
left_out = []
LIST["scenarios"].each do |scenario|
  name = scenario["name"]
  next unless name.include?(ARGV.join(" "))

  missing = scenario.fetch("needs", []) - FEATURES
  reason = LEFT_OUT[name] || (missing.join(", ") unless missing.empty?)
  next left_out << "#{name} (#{reason})" if reason

  problem = run(scenario)
  problem ? failed += 1 : passed += 1
  warn "failed: #{name}\n    #{problem}" if problem
end
left_out.each { |name| puts "not for Ruby: #{name}" }
puts "#{passed} passed, #{failed} failed"
exit(failed.zero?)
