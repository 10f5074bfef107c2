// The same package for `import`.
import coracle from './index.js';

export default coracle;
export const {
  open, hostReport, setLog, dockerode, version, versionNumber, buildInfo, hasFeature, statusName, Engine, Lease, Container, Containers, Exec, Session, Images, Plugins, Networks, Volumes, Body, Logs, LogLine, Events, Work, Server, EngineAgent, CoracleError, InvalidError, UnauthorizedError, ForbiddenError, NotFoundError, ConflictError, InternalError, UnsupportedError, UnavailableError, IoError, NoMemoryError, TimeoutError, CancelledError, CallbackError, ForkedError, PanicError, MisuseError, CorruptError, NotAcceptableError,
} = coracle;
