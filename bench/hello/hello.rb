# hello.rb ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
require "coracle"

def hello(engine)
  box = engine.create({ Image: "busybox", Cmd: %w[echo hello], HostConfig: { NetworkMode: "none" } })
  session = box.start_attached
  stdout, = session.communicate("")
  print stdout
  $stdout.flush
  session.wait
  session.close
  box.remove
  $stdin.read
end

def calls(engine, count)
  begun = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  count.times { engine.container_list({ all: false }) }
  puts (Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - begun) / count
end

Coracle.open(ARGV[0]) { |engine| ARGV[1] ? calls(engine, ARGV[1].to_i) : hello(engine) }
