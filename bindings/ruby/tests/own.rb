# frozen_string_literal: true

# What is particular to Ruby: exceptions that come into a thread, blocks, closed handles, descriptors.
#
# Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE. Needs root.

require "coracle"
require "fileutils"
require "timeout"
require "tmpdir"

IMAGE = ENV.fetch("CORACLE_TEST_IMAGE")
LONG = 300
SLEEP = ["sh", "-c", "echo ready; exec sleep 1000"].freeze

class Failed < StandardError; end

def same(expected, got)
  raise Failed, "wanted #{expected.inspect}, got #{got.inspect}" unless expected == got
end

def raises(kind)
  yield
rescue kind => e
  e
else
  raise Failed, "no #{kind}"
end

def running(engine)
  container = engine.create({ Image: "busybox", Cmd: SLEEP })
  session = container.start_attached
  same [:stdout, "ready\n"], session.read(timeout: LONG)
  session.close
  container
end

TESTS = {
  "an exception that comes into the thread ends the call" => lambda do |engine, _|
    container = running(engine)
    raises(Timeout::Error) { Timeout.timeout(0.2) { container.wait } }
    waiter = Thread.new { container.wait }
    waiter.report_on_exception = false
    sleep 0.1
    waiter.raise(Interrupt)
    raises(Interrupt) { waiter.join(LONG) }
    same true, container.inspect_document["State"]["Running"]
  end,
  "other threads run while one waits" => lambda do |engine, _|
    container = running(engine)
    waiter = Thread.new { container.wait }
    sleep 0.05
    container.kill
    same 137, waiter.value
  end,
  "errors have a kind, a status and the field" => lambda do |engine, _|
    error = raises(Coracle::NotFound) { engine.container("nobody") }
    same ["NOT_FOUND", 404, -7004], [error.kind, error.status, error.code]
    error = raises(Coracle::Invalid) { engine.create({ Image: "busybox", HostConfig: { Memory: "lots" } }) }
    same "HostConfig.Memory", error.detail["field"]
    raises(TypeError) { engine.container_inspect(5) }
    raises(ArgumentError) { engine.call("container_inspect", { di: "x" }) }
    same "TIMEOUT", raises(Coracle::Timeout) { running(engine).wait(timeout: 0.05) }.kind
  end,
  "a block gets the progress, and its exception ends the call" => lambda do |engine, _|
    records = []
    engine.load(IMAGE) { |record| records << record }
    same false, records.empty?
    raises(Failed) { engine.load(IMAGE) { raise Failed } }
  end,
  "break and throw in a block or a read end the call with an error, and lose no descriptor" => lambda do |engine, _|
    thrower = Object.new
    thrower.define_singleton_method(:read) { |_length| throw :out }
    round = lambda do
      raises(LocalJumpError) { engine.load(IMAGE) { break } }
      raises(LocalJumpError) { catch(:out) { engine.load(IMAGE) { throw :out } } }
      raises(LocalJumpError) { catch(:out) { engine.load(thrower) } }
    end
    round.call
    before = Dir.children("/proc/self/fd").size
    10.times { round.call }
    deadline = Time.now + LONG
    sleep 0.05 while Dir.children("/proc/self/fd").size > before && Time.now < deadline
    same true, Dir.children("/proc/self/fd").size <= before
  end,
  "a read that gives more than was asked for is an error" => lambda do |engine, _|
    generous = Object.new
    generous.define_singleton_method(:read) { |_length| "x" * (4 << 20) }
    raises(ArgumentError) { engine.load(generous) }
  end,
  "a terminal, an exec, samples, events" => lambda do |engine, _|
    container = engine.create({ Image: "busybox", Cmd: %w[stty size], Tty: true })
    session = container.start_attached(rows: 11, cols: 22)
    same ["11 22\r\n", ""], session.communicate(timeout: LONG)
    session.close
    engine.events({ filters: { type: ["container"], event: ["start"] } }) do |events|
      other = running(engine)
      same other.id, events.next(timeout: LONG)["Actor"]["ID"]
      same [3, "x", "e\n"], other.exec(["sh", "-c", "cat; echo e >&2; exit 3"], input: "x", timeout: LONG)
      numbers = []
      other.stats { |sample| (numbers << sample["pids_stats"]["current"]).size == 2 && break }
      same true, numbers.all?(&:positive?)
    end
  end,
  "a bound of communicate holds for the whole, however often something comes" => lambda do |engine, _|
    container = engine.create({ Image: "busybox", Cmd: ["sh", "-c", "while :; do echo .; sleep 0.05; done"] })
    session = container.start_attached
    # A signal of the test's end, so that a bound that never comes fails instead of lasting.
    guard = Thread.new { sleep(LONG) && container.kill }
    same "TIMEOUT", raises(Coracle::Timeout) { session.communicate(timeout: 0.5) }.kind
    guard.kill
    session.close
  end,
  "a wait that is begun has a descriptor" => lambda do |engine, _|
    container = engine.create({ Image: "busybox", Cmd: ["sh", "-c", "exit 7"] })
    pending = engine.begin("container_wait", { id: container.id, condition: "next-exit" })
    same true, pending.fileno >= 0
    container.start
    same 7, pending.result(LONG).code
  end,
  "closed handles are misuse, and close again" => lambda do |_, dir|
    engine = Coracle.open("#{dir}/root", run_dir: "#{dir}/run")
    events = engine.events
    2.times { events.close }
    2.times { engine.close }
    raises(Coracle::Misuse) { events.next }
    raises(Coracle::Misuse) { engine.engine_info }
  end,
  "no descriptor is lost" => lambda do |engine, _|
    container = running(engine)
    round = lambda do
      container.exec(["true"], timeout: LONG)
      container.logs { |line| same "ready", line.text }
      raises(Coracle::Timeout) { container.wait(timeout: 0) }
      raises(Coracle::Error) { engine.load("/dev/null") }
    end
    round.call
    before = Dir.children("/proc/self/fd").size
    10.times { round.call }
    deadline = Time.now + LONG
    sleep 0.05 while Dir.children("/proc/self/fd").size > before && Time.now < deadline
    same true, Dir.children("/proc/self/fd").size <= before
  end,
  "the garbage collector may come at any moment" => lambda do |engine, _|
    GC.stress = true
    begin
      same [], engine.container_list
      raises(Coracle::NotFound) { engine.container_inspect("nobody") }
    ensure
      GC.stress = false
    end
  end
}.freeze

failed = 0
TESTS.each do |name, test|
  dir = Dir.mktmpdir("coracle-ruby-")
  Coracle.open("#{dir}/root", run_dir: "#{dir}/run", durability: "off") do |engine|
    engine.load(IMAGE)
    test.call(engine, dir)
  rescue StandardError, Interrupt => e
    failed += 1
    warn "failed: #{name}\n#{e.full_message(highlight: false)}"
  ensure
    engine.container_list({ all: true }).each { |found| Coracle::Container.new(engine, found["Id"]).remove(force: true) }
  end
ensure
  FileUtils.rm_rf(dir)
end
puts "#{TESTS.size - failed} passed, #{failed} failed"
exit(failed.zero?)
