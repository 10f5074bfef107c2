// The errors: one class for each code, all below CoracleError.
'use strict';

/** An error of the engine. */
class CoracleError extends Error {
  /** @param {{code: string, message: string, status?: number, errno?: number, area?: string, detail?: object, cause?: unknown}} about */
  constructor(about) {
    super(about.message, about.cause === undefined ? undefined : {cause: about.cause});
    this.code = about.code;
    this.status = about.status ?? 500;
    this.errno = about.errno ?? 0;
    this.area = about.area ?? '';
    this.detail = about.detail ?? {};
    this.field = typeof this.detail.field === 'string' ? this.detail.field : '';
  }

  get name() {
    return this.constructor.name;
  }
}

class InvalidError extends CoracleError {}
class UnauthorizedError extends CoracleError {}
class ForbiddenError extends CoracleError {}
class NotFoundError extends CoracleError {}
class ConflictError extends CoracleError {}
class InternalError extends CoracleError {}
class UnsupportedError extends CoracleError {}
class UnavailableError extends CoracleError {}
class IoError extends CoracleError {}
class NoMemoryError extends CoracleError {}
class CallbackError extends CoracleError {}
class ForkedError extends CoracleError {}
class PanicError extends CoracleError {}
class MisuseError extends CoracleError {}
class CorruptError extends CoracleError {}
class NotAcceptableError extends CoracleError {}

/** A deadline passed. Its name is the one of AbortSignal.timeout's reason. */
class TimeoutError extends CoracleError {
  get name() {
    return 'TimeoutError';
  }
}

/** A signal ended the call, whose reason is `cause`. Its name is the one of node's own calls. */
class CancelledError extends CoracleError {
  get name() {
    return 'AbortError';
  }
}

/** An argument is of a wrong type: a TypeError with node's code. */
class TypeMistake extends TypeError {
  constructor(message) {
    super(message);
    this.code = 'ERR_INVALID_ARG_TYPE';
  }

  get name() {
    return 'TypeError';
  }
}

const classes = {
  INVALID: InvalidError, UNAUTHORIZED: UnauthorizedError, FORBIDDEN: ForbiddenError, NOT_FOUND: NotFoundError, CONFLICT: ConflictError,
  INTERNAL: InternalError, UNSUPPORTED: UnsupportedError, UNAVAILABLE: UnavailableError, IO: IoError, NOMEM: NoMemoryError,
  TIMEOUT: TimeoutError, CANCELLED: CancelledError, CALLBACK: CallbackError, FORKED: ForkedError, PANIC: PanicError,
  MISUSE: MisuseError, CORRUPT: CorruptError, NOT_ACCEPTABLE: NotAcceptableError,
};

function made(about) {
  return new (classes[about.code] ?? CoracleError)(about);
}

/** The error of the addon's report of a failure. */
const failed = (failure) => made({...failure, detail: JSON.parse(failure.detail)});

/** An error of this package's own. */
const misuse = (code, message) => made({code, message, status: code === 'INVALID' ? 400 : 500});

/** The error of a signal that was aborted. */
function aborted(signal) {
  const late = signal.reason?.name === 'TimeoutError';
  const message = late ? 'the deadline of the signal passed' : 'the signal ended the call';
  return made({code: late ? 'TIMEOUT' : 'CANCELLED', message, cause: signal.reason});
}

module.exports = {
  CoracleError, InvalidError, UnauthorizedError, ForbiddenError, NotFoundError, ConflictError, InternalError, UnsupportedError, UnavailableError,
  IoError, NoMemoryError, TimeoutError, CancelledError, CallbackError, ForkedError, PanicError, MisuseError, CorruptError, NotAcceptableError,
  TypeMistake, aborted, failed, made, misuse,
};
