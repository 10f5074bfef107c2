// Coracle: a whole container engine in process.
'use strict';

const {sync, text} = require('./native.js');
const {Work} = require('./call.js');
const {Container, Containers, Exec} = require('./containers.js');
const {Engine, Lease, hostReport, open, setLog} = require('./engine.js');
const errors = require('./errors.js');
const {EngineAgent, Server, dockerode} = require('./http.js');
const {Images, Plugins} = require('./images.js');
const {Networks, Volumes} = require('./networks.js');
const {Session} = require('./session.js');
const {Body, Events, LogLine, Logs} = require('./streams.js');

/** The library's version. */
const version = () => sync('versionString')[1];

/** The library's version as a number: major<<16 | minor<<8 | patch. */
const versionNumber = () => sync('version')[0];

/** How the library was built. */
const buildInfo = () => JSON.parse(sync('buildInfo')[1]);

/** Whether the library has a feature, such as "registry" or "leases". */
const hasFeature = (name) => sync('hasFeature', text(name, 'name'))[0] === 1;

/** The name of a status code, such as "NOT_FOUND" for -7004. */
const statusName = (code) => sync('statusName', code)[1];

exports.open = open;
exports.hostReport = hostReport;
exports.setLog = setLog;
exports.dockerode = dockerode;
exports.version = version;
exports.versionNumber = versionNumber;
exports.buildInfo = buildInfo;
exports.hasFeature = hasFeature;
exports.statusName = statusName;
exports.Engine = Engine;
exports.Lease = Lease;
exports.Container = Container;
exports.Containers = Containers;
exports.Exec = Exec;
exports.Session = Session;
exports.Images = Images;
exports.Plugins = Plugins;
exports.Networks = Networks;
exports.Volumes = Volumes;
exports.Body = Body;
exports.Logs = Logs;
exports.LogLine = LogLine;
exports.Events = Events;
exports.Work = Work;
exports.Server = Server;
exports.EngineAgent = EngineAgent;
exports.CoracleError = errors.CoracleError;
exports.InvalidError = errors.InvalidError;
exports.UnauthorizedError = errors.UnauthorizedError;
exports.ForbiddenError = errors.ForbiddenError;
exports.NotFoundError = errors.NotFoundError;
exports.ConflictError = errors.ConflictError;
exports.InternalError = errors.InternalError;
exports.UnsupportedError = errors.UnsupportedError;
exports.UnavailableError = errors.UnavailableError;
exports.IoError = errors.IoError;
exports.NoMemoryError = errors.NoMemoryError;
exports.TimeoutError = errors.TimeoutError;
exports.CancelledError = errors.CancelledError;
exports.CallbackError = errors.CallbackError;
exports.ForkedError = errors.ForkedError;
exports.PanicError = errors.PanicError;
exports.MisuseError = errors.MisuseError;
exports.CorruptError = errors.CorruptError;
exports.NotAcceptableError = errors.NotAcceptableError;
