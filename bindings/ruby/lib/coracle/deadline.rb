# frozen_string_literal: true

module Coracle
  # Points in time on the monotonic clock, in seconds; nil is a time that never comes.
  module Deadline
    module_function

    def of(timeout)
      timeout && Process.clock_gettime(Process::CLOCK_MONOTONIC) + timeout
    end

    # The seconds until then, never below 0.
    def left(deadline)
      deadline && [deadline - of(0), 0].max
    end
  end
end
