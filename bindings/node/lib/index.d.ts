// The types of the package. Documents are those of the Docker API 1.24, and the engine checks them.
import {Agent, AgentOptions} from 'node:http';
import {Socket} from 'node:net';
import {Readable, Writable} from 'node:stream';

/** A document of the API. */
export type Document = Record<string, any>;
/** Filters of a list: the name to its values. */
export type Filters = Record<string, string[]>;
/** An archive: the path of a file, bytes, a stream, or an iterable of bytes. */
export type Archive = string | URL | Uint8Array | Readable | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
/** The limits of a call: a signal that ends it, and its deadline in milliseconds; of a loop, that of each of its steps. */
export interface Limits { signal?: AbortSignal; timeout?: number }
/** A record of a call that lasts. */
export interface Progress { stream?: string; status?: string; id?: string; progressDetail?: {current?: number; total?: number}; [member: string]: any }
/** The limits of a call with progress; an error that `onProgress` throws ends the call. */
export interface WorkOptions extends Limits { onProgress?: (record: Progress) => unknown }
export interface Auth { username?: string; password?: string; identitytoken?: string; registrytoken?: string; serveraddress?: string }

/** A call with progress: a promise of its result, and an iterator of its records. */
export class Work<T> implements PromiseLike<T>, AsyncIterable<Progress> {
  private constructor();
  then<A = T, B = never>(resolved?: ((value: T) => A | PromiseLike<A>) | null, rejected?: ((error: any) => B | PromiseLike<B>) | null): Promise<A | B>;
  catch<B = never>(rejected?: ((error: any) => B | PromiseLike<B>) | null): Promise<T | B>;
  finally(ended?: (() => void) | null): Promise<T>;
  [Symbol.asyncIterator](): AsyncGenerator<Progress, void, undefined>;
}

export interface OpenOptions { runDir?: string; config?: Document; existing?: boolean; lenient?: boolean; ephemeral?: boolean }
export function open(root: string, options?: OpenOptions): Promise<Engine>;
export function hostReport(root: string, options?: OpenOptions): Promise<Document>;
export type Level = 'error' | 'warn' | 'info' | 'debug';
export function setLog(level: Level, sink: ((level: Level, target: string, message: string) => void) | null): void;
/** A client of dockerode over private connections; without `Docker` the program's own package is used. */
export function dockerode(engine: Engine, Docker?: new (options: any) => any): any;
export function version(): string;
export function versionNumber(): number;
export function buildInfo(): Document;
export function hasFeature(name: string): boolean;
export function statusName(code: number): string;

export class Engine {
  private constructor();
  readonly containers: Containers;
  readonly images: Images;
  readonly volumes: Volumes;
  readonly networks: Networks;
  readonly plugins: Plugins;
  close(): void;
  again(): Engine;
  info(options?: Limits): Promise<Document>;
  version(): Promise<Document>;
  diskUsage(options?: Limits & {type?: string[]}): Promise<Document>;
  metrics(): Promise<Document>;
  reload(labels: string[], settings?: Record<string, string>): Promise<void>;
  lease(name: string): Promise<Lease>;
  verify(options?: WorkOptions & {repair?: boolean; auths?: Record<string, Auth>}): Work<Document>;
  leftovers(): Promise<{Path: string; Reason: string}[]>;
  sweep(options?: Limits): Promise<{Path: string; Reason: string}[]>;
  copyRoot(directory: string, options?: WorkOptions & {pause?: boolean}): Work<Document>;
  importDocker(options?: WorkOptions & {directory?: string; socket?: string; names?: string[]}): Work<Document>;
  events(options?: {since?: string | number; until?: string | number; after?: number; filters?: Filters}): Promise<Events>;
  request(method: string, target: string, options?: Limits & {headers?: Record<string, string>; body?: string | Uint8Array}): Promise<{status: number; body: Readable}>;
  connect(): Socket;
  agent(options?: AgentOptions): Agent;
  serve(options?: {addresses?: string[]; fds?: number[]; insecureTcp?: boolean; hostNames?: string[]}): Promise<Server>;
}
export class Lease { private constructor(); close(): void }
export class Server {
  private constructor();
  readonly addresses: string[];
  shutdown(options?: Limits & {graceMs?: number}): Promise<void>;
  close(): Promise<void>;
}
export class EngineAgent extends Agent { constructor(engine: Engine, options?: AgentOptions) }

/** The caller's own descriptors in place of a session's streams, and the size of a terminal. */
export interface Io { stdinFd?: number; stdoutFd?: number; stderrFd?: number; rows?: number; cols?: number; direct?: boolean }
export interface StopOptions extends Limits { signalName?: string; graceMs?: number }
export type Condition = 'not-running' | 'next-exit' | 'removed';
export interface PathStat { name: string; size: number; mode: number; mtime: string; linkTarget: string }

export class Containers {
  private constructor();
  create(body: Document, options?: Limits & {name?: string}): Promise<Container>;
  get(id: string): Container;
  exec(id: string): Exec;
  list(options?: {all?: boolean; limit?: number; size?: boolean; since?: string; before?: string; filters?: Filters}): Promise<Document[]>;
  prune(options?: Limits & {filters?: Filters}): Promise<Document>;
}
export class Container {
  private constructor();
  readonly id: string;
  readonly warnings: string[];
  inspect(options?: {size?: boolean}): Promise<Document>;
  explain(): Promise<Document>;
  start(options?: Limits): Promise<boolean>;
  startAttached(options?: Limits & Io): Promise<Session>;
  attach(options?: Limits & Io & {stdin?: boolean; stdout?: boolean; stderr?: boolean; wait?: boolean}): Promise<Session>;
  stop(options?: StopOptions): Promise<boolean>;
  restart(options?: StopOptions): Promise<void>;
  kill(signalName?: string, options?: Limits): Promise<void>;
  pause(options?: Limits): Promise<void>;
  unpause(options?: Limits): Promise<void>;
  wait(options?: Limits & {condition?: Condition}): Promise<number>;
  pidfd(): Promise<number>;
  remove(options?: Limits & {force?: boolean; volumes?: boolean; link?: boolean}): Promise<void>;
  rename(name: string): Promise<void>;
  top(psArgs?: string): Promise<{Titles: string[]; Processes: string[][]}>;
  update(body: Document, options?: Limits): Promise<string[]>;
  statPath(path: string, options?: Limits): Promise<PathStat>;
  getArchive(path: string, options?: Limits): Promise<{body: Readable; stat: PathStat}>;
  putArchive(path: string, archive: Archive, options?: WorkOptions & {noOverwriteDirNonDir?: boolean; copyUIDGID?: boolean}): Work<void>;
  export(options?: Limits): Promise<Readable>;
  changes(options?: Limits): Promise<{Path: string; Kind: number}[]>;
  commit(options?: Limits & {repo?: string; tag?: string; comment?: string; author?: string; pause?: boolean; changes?: string[]; config?: Document}): Promise<string>;
  logs(options?: Limits & {stdout?: boolean; stderr?: boolean; since?: string | number; tail?: string | number; follow?: boolean}): Promise<Logs>;
  stats(options?: Limits): Promise<Document>;
  samples(options?: Limits): AsyncGenerator<Document, void, undefined>;
  exec(body: Document): Promise<Exec>;
  run(command: string[], options?: Limits): Promise<{code: number; stdout: Buffer; stderr: Buffer}>;
}
export class Exec {
  private constructor();
  readonly id: string;
  start(options?: Limits): Promise<void>;
  startAttached(options?: Limits & Io): Promise<Session>;
  wait(options?: Limits): Promise<number>;
  inspect(): Promise<Document>;
}

export type Channel = 'stdin' | 'stdout' | 'stderr';
export class Session {
  private constructor();
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  has(name: Channel): boolean;
  output(options?: Limits): AsyncGenerator<{channel: Channel; data: Buffer}, void, undefined>;
  write(data: string | Uint8Array, options?: Limits): Promise<number>;
  closeStdin(): void;
  communicate(data?: string | Uint8Array | AsyncIterable<Uint8Array> | null, options?: Limits): Promise<{stdout: Buffer; stderr: Buffer}>;
  resize(rows: number, cols: number): void;
  wait(options?: Limits): Promise<number>;
  close(): void;
}

export class Body extends Readable { private constructor() }
export class LogLine { private constructor(); channel: Channel; nanoseconds: bigint; data: Buffer; readonly time: Date; readonly text: string }
export class Logs implements AsyncIterable<LogLine> {
  private constructor();
  next(options?: Limits): Promise<LogLine | undefined>;
  lines(options?: Limits): AsyncGenerator<LogLine, void, undefined>;
  [Symbol.asyncIterator](): AsyncGenerator<LogLine, void, undefined>;
  readonly lost: number;
  readonly fd: number;
  close(): void;
}
export interface Event extends Document { Type: string; Action: string; Actor: {ID: string; Attributes: Record<string, string>}; timeNano: number; sequence: number }
export class Events implements AsyncIterable<Event> {
  private constructor();
  poll(): Promise<Event | null | undefined>;
  next(options?: Limits): Promise<Event | undefined>;
  all(options?: Limits): AsyncGenerator<Event, void, undefined>;
  [Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined>;
  readonly fd: number;
  close(): void;
}

export class Images {
  private constructor();
  list(options?: {all?: boolean; filters?: Filters}): Promise<Document[]>;
  inspect(ref: string): Promise<Document>;
  history(ref: string): Promise<Document[]>;
  tag(ref: string, name: string): Promise<void>;
  remove(ref: string, options?: Limits & {force?: boolean; noPrune?: boolean}): Promise<{Untagged?: string; Deleted?: string}[]>;
  prune(options?: Limits & {filters?: Filters}): Promise<Document>;
  pruneCaches(options?: Limits & {filters?: Filters}): Promise<Document>;
  load(archive: Archive, options?: WorkOptions): Work<string[]>;
  save(names: string | string[], options?: Limits & {layout?: 'docker' | 'oci'}): Promise<Readable>;
  import(archive: Archive | null, options?: WorkOptions & {repo?: string; tag?: string; message?: string; changes?: string[]; url?: string}): Work<string>;
  build(archive: Archive | null, options?: WorkOptions & {query?: Document}): Work<string>;
  buildDir(directory: string, options?: WorkOptions & {query?: Document}): Work<string>;
  pull(ref: string, options?: WorkOptions & {auth?: Auth; platform?: string}): Work<string>;
  push(ref: string, options?: WorkOptions & {auth?: Auth}): Work<{Tag: string; Digest: string; Size: number}>;
  search(term: string, options?: Limits & {limit?: number; filters?: Filters; auth?: Auth}): Promise<Document[]>;
  inspectRemote(ref: string, options?: Limits & {auth?: Auth}): Promise<Document>;
  checkLogin(auth: Auth, options?: Limits): Promise<Document>;
}
export class Networks {
  private constructor();
  create(body: Document, options?: Limits): Promise<string>;
  list(options?: {filters?: Filters}): Promise<Document[]>;
  inspect(id: string): Promise<Document>;
  connect(id: string, container: string, options?: Limits & {endpoint?: Document}): Promise<void>;
  disconnect(id: string, container: string, options?: Limits & {force?: boolean}): Promise<void>;
  remove(id: string, options?: Limits): Promise<void>;
  prune(options?: Limits & {filters?: Filters}): Promise<Document>;
  release(options?: Limits): Promise<void>;
  repair(options?: Limits): Promise<void>;
}
export class Volumes {
  private constructor();
  create(body?: Document, options?: Limits): Promise<Document>;
  list(options?: {filters?: Filters}): Promise<{Volumes: Document[]}>;
  inspect(name: string): Promise<Document>;
  remove(name: string, options?: Limits): Promise<void>;
  prune(options?: Limits & {filters?: Filters}): Promise<Document>;
}
export class Plugins {
  private constructor();
  list(options?: {filters?: Filters}): Promise<Document[]>;
  inspect(name: string): Promise<Document>;
  privileges(remote: string, options?: Limits & {auth?: Auth}): Promise<Document[]>;
  pull(body: Document, options?: WorkOptions): Work<string>;
  upgrade(name: string, body: Document, options?: WorkOptions): Work<void>;
  enable(name: string, options?: Limits & {waitSeconds?: number}): Promise<void>;
  disable(name: string, options?: Limits & {force?: boolean}): Promise<void>;
  remove(name: string, options?: Limits & {force?: boolean}): Promise<void>;
  set(name: string, changes: string[]): Promise<void>;
}

/** An error of the engine; `errno` is the kernel's number or 0, `field` the path of a document's member or ''. */
export class CoracleError extends Error {
  code: string;
  status: number;
  errno: number;
  area: string;
  detail: Document;
  field: string;
}
export class InvalidError extends CoracleError {}
export class UnauthorizedError extends CoracleError {}
export class ForbiddenError extends CoracleError {}
export class NotFoundError extends CoracleError {}
export class ConflictError extends CoracleError {}
export class InternalError extends CoracleError {}
export class UnsupportedError extends CoracleError {}
export class UnavailableError extends CoracleError {}
export class IoError extends CoracleError {}
export class NoMemoryError extends CoracleError {}
export class TimeoutError extends CoracleError {}
export class CancelledError extends CoracleError {}
export class CallbackError extends CoracleError {}
export class ForkedError extends CoracleError {}
export class PanicError extends CoracleError {}
export class MisuseError extends CoracleError {}
export class CorruptError extends CoracleError {}
export class NotAcceptableError extends CoracleError {}
