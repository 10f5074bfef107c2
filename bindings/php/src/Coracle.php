<?php

/** Containers in process, over libcoracle.so.1 by PHP's FFI. */

declare(strict_types=1);

namespace Coracle;

use FFI;
use FFI\CData;

/** An error of the engine: getCode() is the library's code; `detail["field"]` is the member of a document that is wrong. */
class Error extends \RuntimeException
{
    /** @param array<string, mixed> $detail */
    public function __construct(
        string $message,
        int $code = 0,
        public readonly string $kind = '',
        public readonly int $status = 500,
        public readonly int $errno = 0,
        public readonly string $area = '',
        public readonly array $detail = [],
    ) {
        parent::__construct($message, $code);
    }
}

class Invalid extends Error {}
class Forbidden extends Error {}
class NotFound extends Error {}
class Conflict extends Error {}
class Unsupported extends Error {}
class Timeout extends Error {}
class Cancelled extends Error {}
class Forked extends Error {}
class Misuse extends Error {}

/** The functions of the library, with the arguments that coracle.ffi.h declares. */
final class Library
{
    public const OK = 0, DONE = 1, AGAIN = 2, UNCHANGED = 3;
    private const CLASSES = [
        -7001 => Invalid::class, -7003 => Forbidden::class, -7004 => NotFound::class, -7005 => Conflict::class, -7007 => Unsupported::class,
        -7011 => Timeout::class, -7012 => Cancelled::class, -7014 => Forked::class, -7016 => Misuse::class,
    ];
    private const SYSTEM = 'int open(const char *path, int flags); int close(int fd);
        struct coracle_php_pollfd { int fd; short events; short revents; };
        int poll(struct coracle_php_pollfd *fds, unsigned long count, int timeout);';

    private static ?FFI $ffi = null;
    /** @var array<string, list<array{string, string}>> */
    private static array $functions = [];

    public static function ffi(): FFI
    {
        if (self::$ffi === null) {
            $header = self::header();
            preg_match_all('/^\w[\w ]*?[ *]+coracle_(\w+)\((.*)\);$/m', $header, $found, PREG_SET_ORDER);
            foreach ($found as [, $name, $list]) {
                preg_match_all('/\s*([^,]*?)\s*(\w+)(?:,|$)/', $list, $arguments, PREG_SET_ORDER);
                self::$functions[$name] = array_map(fn ($one) => [$one[2], $one[1]], $arguments);
            }
            self::$ffi = FFI::cdef($header . self::SYSTEM, getenv('CORACLE_LIBRARY') ?: 'libcoracle.so.1');
        }
        return self::$ffi;
    }

    /** The declarations: beside this file where the package has them, else those of the source or of the system. */
    private static function header(): string
    {
        foreach ([__DIR__, __DIR__ . '/../../../include', '/usr/local/include', '/usr/include'] as $directory) {
            if (is_file("$directory/coracle.ffi.h")) {
                return (string) file_get_contents("$directory/coracle.ffi.h");
            }
        }
        throw new \LogicException('there is no coracle.ffi.h');
    }

    /**
     * Names and types of the arguments of a function.
     *
     * @return list<array{string, string}>
     */
    public static function arguments(string $name): array
    {
        self::ffi();
        return self::$functions[$name] ?? throw new \BadMethodCallException("the library has no function coracle_$name");
    }

    /** Calls a function that has no error argument. */
    public static function raw(string $name, mixed ...$arguments): mixed
    {
        return self::ffi()->{"coracle_$name"}(...$arguments);
    }

    /** Calls a function whose last argument is the error: its status or count. */
    public static function call(string $name, mixed ...$arguments): int
    {
        $error = self::ffi()->new('coracle_error *');
        $result = self::raw($name, ...[...$arguments, FFI::addr($error)]);
        if ($result < 0) {
            throw self::errorOf($result, $error);
        }
        return $result;
    }

    public static function errorOf(int $code, ?CData $error = null): Error
    {
        $kind = self::raw('status_name', $code);
        $class = self::CLASSES[$code] ?? Error::class;
        if ($error === null || FFI::isNull($error)) {
            return new $class('no details', $code, $kind);
        }
        try {
            return new $class(
                self::raw('error_message', $error),
                self::raw('error_code', $error),
                $kind,
                self::raw('error_http_status', $error),
                self::raw('error_errno', $error),
                self::raw('error_area', $error),
                json_decode(self::raw('error_detail', $error), true),
            );
        } finally {
            self::raw('error_free', $error);
        }
    }

    /** A string that the library gave, which is freed. */
    public static function take(?CData $pointer): ?string
    {
        if ($pointer === null || FFI::isNull($pointer)) {
            return null;
        }
        $text = FFI::string($pointer);
        self::raw('free', $pointer);
        return $text;
    }

    /** A text for the library; a NUL in it would cut it. */
    public static function text(?string $value): ?string
    {
        if ($value !== null && str_contains($value, "\0")) {
            throw new Invalid('a text has a NUL in it', -7001, 'INVALID', 400);
        }
        return $value;
    }

    /** Whether a descriptor becomes readable within so many seconds; null: for ever. */
    public static function readable(int $fd, ?float $timeout = null): bool
    {
        $one = self::ffi()->new('struct coracle_php_pollfd[1]');
        [$one[0]->fd, $one[0]->events] = [$fd, 1];
        return self::ffi()->poll(FFI::addr($one[0]), 1, $timeout === null ? -1 : (int) ceil($timeout * 1000)) > 0;
    }

    /** The library's version: text, major, minor, patch. */
    public static function version(): array
    {
        $number = self::raw('version');
        return [self::raw('version_string'), $number >> 16, $number >> 8 & 255, $number & 255];
    }

    public static function buildInfo(): array
    {
        return json_decode(self::raw('build_info'), true);
    }

    public static function hasFeature(string $name): bool
    {
        return self::raw('has_feature', self::text($name)) === 1;
    }

    public static function statusName(int $code): string
    {
        return self::raw('status_name', $code);
    }

    /** Everything that an engine on this root needs of the host; opens nothing. */
    public static function hostReport(string $root): array
    {
        $out = self::ffi()->new('char *');
        self::call('host_report', self::text($root), null, FFI::addr($out));
        return json_decode((string) self::take($out), true);
    }
}

/** A handle of the library; it ends with close(), or with the object. */
abstract class Handle
{
    protected const FREE = '';

    public function __construct(private ?CData $pointer) {}

    /** The pointer; Misuse after close(). */
    public function pointer(): CData
    {
        return $this->pointer ?? throw new Misuse('it was closed before', -7016, 'MISUSE');
    }

    public function close(): void
    {
        $pointer = $this->pointer;
        $this->pointer = null;
        if ($pointer !== null) {
            Library::raw(static::FREE, $pointer);
        }
    }

    public function __destruct()
    {
        $this->close();
    }

    /** The descriptor that a function of the library gives, for an event loop. */
    protected function descriptor(string $function, mixed ...$arguments): int
    {
        $fd = Library::raw($function, $this->pointer(), ...$arguments);
        return $fd >= 0 ? $fd : throw Library::errorOf($fd);
    }
}

/** An operation of the library. */
final class Op extends Handle
{
    protected const FREE = 'op_free';

    public static function make(int $flags = 0, ?float $timeout = null): self
    {
        $out = Library::ffi()->new('coracle_op *');
        Library::call('op_new', $flags, FFI::addr($out));
        if ($timeout !== null) {
            Library::raw('op_set_timeout', $out, (int) ($timeout * 1000));
        }
        return new self($out);
    }

    /**
     * Runs work with an operation for a deadline, or with none.
     *
     * @template T
     * @param callable(?CData): T $work
     * @return T
     */
    public static function within(?float $timeout, callable $work): mixed
    {
        $op = $timeout === null ? null : self::make(0, $timeout);
        try {
            return $work($op?->pointer());
        } finally {
            $op?->close();
        }
    }
}

/** The answer of a call: each member is null where the function does not give it. */
final class Answer
{
    public int $status = 0;
    public int $code = -1;
    public ?string $id = null;
    public ?array $json = null;
    public ?Session $session = null;
    public ?Stream $stream = null;
    public ?Events $events = null;
    public ?Server $server = null;
    public ?int $fd = null;

    /** Whether the object was in that state before the call. */
    public function unchanged(): bool
    {
        return $this->status === Library::UNCHANGED;
    }
}

/** A call with its arguments by the names that the header gives them, without `_json`. */
final class Call
{
    private const OUTS = ['out_id' => 'id', 'out_json' => 'json', 'out_code' => 'code', 'out_status' => 'code', 'out_fd' => 'fd'];
    private const HANDLES = [
        'coracle_session **' => ['session', Session::class], 'coracle_stream **' => ['stream', Stream::class],
        'coracle_events **' => ['events', Events::class], 'coracle_http_server **' => ['server', Server::class],
    ];

    private ?\Throwable $raised = null;
    private ?CData $user = null;
    private int $count = 0;
    private ?int $opened = null;
    /** @var array<string, array{CData, string}> */
    private array $outs = [];
    /** Memory of the arguments, for the call. */
    private array $kept = [];

    /** @param array<string, mixed> $given */
    public function __construct(private string $name, private CData $first, private array $given) {}

    public function run(?float $timeout = null, ?callable $progress = null): Answer
    {
        $op = $timeout === null && $progress === null ? null : Op::make(0, $timeout);
        try {
            if ($op !== null && $progress !== null) {
                $told = $this->guarded(1, fn ($_, $record) => $record === null ? 0 : (int) ($progress(json_decode(self::given($record), true)) && 0));
                Library::raw('op_set_progress', $op->pointer(), $told, null, null, 0);
            }
            $status = Library::call($this->name, ...$this->arguments($op?->pointer()));
            return $this->answer($status);
        } catch (Error $problem) {
            throw $this->raised ?? $problem;
        } finally {
            $op?->close();
            $this->end();
        }
    }

    /** Begins the call with an operation that does not block. */
    public function begin(Op $op): void
    {
        try {
            Library::call($this->name, ...$this->arguments($op->pointer()));
        } finally {
            $this->end();
        }
    }

    private function end(): void
    {
        if ($this->opened !== null) {
            Library::ffi()->close($this->opened);
        }
        $this->opened = null;
    }

    private static function given(mixed $text): string
    {
        return $text instanceof CData ? FFI::string($text) : $text;
    }

    /** A function for the library; an exception must not leave it, so it is kept, and comes out of the call. */
    private function guarded(int $failed, callable $work): \Closure
    {
        return function (...$arguments) use ($failed, $work): int {
            try {
                return $work(...$arguments);
            } catch (\Throwable $problem) {
                $this->raised = $problem;
                return $failed;
            }
        };
    }

    private function arguments(?CData $op): array
    {
        $declared = array_slice(Library::arguments($this->name), 1, -1);
        $names = array_map(fn ($one) => preg_replace('/_json$/', '', $one[0]), $declared);
        foreach (array_keys($this->given) as $name) {
            if (!in_array($name, $names, true) && $name !== 'tar') {
                throw new \TypeError("$this->name has no argument $name");
            }
        }
        return [$this->first, ...array_map(fn ($one) => $this->argument($one[0], $one[1], $op), $declared)];
    }

    private function argument(string $name, string $type, ?CData $op): mixed
    {
        if ($type === 'coracle_op *') {
            return $op;
        }
        if (isset(self::OUTS[$name]) || isset(self::HANDLES[$type])) {
            $place = Library::ffi()->new(preg_replace('/ ?\*$/', '', $type));
            $this->outs[$name] = [$place, $type];
            return FFI::addr($place);
        }
        $value = $this->given[preg_replace('/_json$/', '', $name)] ?? null;
        return match ($type) {
            'coracle_read_fn' => $this->source($this->given['tar'] ?? null),
            'void *' => $this->user,
            'const coracle_io *' => $value === null ? null : $this->io($value),
            'const int32_t *' => null,
            'const void *' => $this->bytes((string) $value),
            'size_t' => $this->count,
            'const char *' => str_ends_with($name, '_json')
                ? ($value === null ? null : json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE))
                : Library::text($value),
            default => self::number($value ?? 0),
        };
    }

    private static function number(int|bool $value): int
    {
        return (int) $value;
    }

    private function bytes(string $value): CData
    {
        $this->count = strlen($value);
        $memory = Library::ffi()->new('char[' . max(1, $this->count) . ']');
        FFI::memcpy($memory, $value, $this->count);
        return $this->kept[] = $memory;
    }

    private function io(array $value): CData
    {
        $io = Library::ffi()->new('coracle_io');
        $io->size = FFI::sizeof($io);
        [$io->fd_in, $io->fd_out, $io->fd_err] = [$value['stdin'] ?? -1, $value['stdout'] ?? -1, $value['stderr'] ?? -1];
        [$io->rows, $io->cols] = [$value['rows'] ?? 0, $value['cols'] ?? 0];
        $this->kept[] = $io;
        return FFI::addr($io);
    }

    /** An archive: a path, a stream of PHP, or a function that gives up to so many bytes. */
    private function source(mixed $value): mixed
    {
        if (is_string($value)) {
            $this->opened = Library::ffi()->open(Library::text($value), 0x80000); // O_RDONLY | O_CLOEXEC
            if ($this->opened < 0) {
                $this->opened = null;
                throw new NotFound("there is no archive $value", -7004, 'NOT_FOUND', 404);
            }
            // The pointer below is the same memory.
            $this->kept[] = $number = Library::ffi()->new('int64_t');
            $number->cdata = $this->opened;
            $this->user = Library::ffi()->cast('void *', $number);
            return Library::ffi()->coracle_read_fd;
        }
        $read = is_resource($value) ? fn (int $length) => (string) fread($value, $length) : $value;
        if (!is_callable($read)) {
            throw new \TypeError('an archive is a path, a stream or a function');
        }
        return $this->guarded(-1, function ($_, $buffer, $length) use ($read): int {
            $piece = (string) $read($length);
            if (strlen($piece) > $length) {
                throw new \LengthException('the function of an archive gave more than it was asked for');
            }
            FFI::memcpy($buffer, $piece, strlen($piece));
            return strlen($piece);
        });
    }

    private function answer(int $status): Answer
    {
        $answer = new Answer();
        $answer->status = $status;
        foreach ($this->outs as $name => [$place, $type]) {
            if (isset(self::HANDLES[$type])) {
                [$member, $class] = self::HANDLES[$type];
                $answer->$member = FFI::isNull($place) ? null : new $class($place);
            } elseif ($type === 'int32_t *') {
                $answer->{self::OUTS[$name]} = $place->cdata;
            } else {
                $text = Library::take($place);
                $answer->{self::OUTS[$name]} = $name === 'out_json' && $text !== null ? json_decode($text, true) : $text;
            }
        }
        return $answer;
    }
}

/**
 * An opened engine root.
 *
 * It has a method for each function of the C interface that takes an engine, named without `coracle_`, with an array of the arguments by their
 * names in the header, without `_json`: `$engine->container_inspect(['id' => 'box'])->json`. A second argument is the deadline in seconds, and
 * a third one a function that gets records of progress.
 */
final class Engine extends Handle
{
    protected const FREE = 'close';
    private const FLAGS = ['existing' => 1, 'lenient' => 2, 'ephemeral' => 4];

    /**
     * Opens a root. config: the members of the header's `config_json`.
     *
     * @param list<string> $flags any of "existing", "lenient", "ephemeral"
     */
    public static function open(string $root, ?string $runDir = null, array $flags = [], array $config = []): self
    {
        $options = Library::ffi()->new('coracle_open_options');
        $options->size = FFI::sizeof($options);
        $options->flags = array_sum(array_map(fn ($flag) => self::FLAGS[$flag], $flags));
        $kept = [];
        foreach (['run_dir' => Library::text($runDir), 'config_json' => json_encode((object) $config)] as $member => $text) {
            if ($text !== null) {
                $kept[] = $memory = Library::ffi()->new('char[' . strlen($text) + 1 . ']');
                FFI::memcpy($memory, $text, strlen($text));
                $options->$member = Library::ffi()->cast('char *', FFI::addr($memory));
            }
        }
        $out = Library::ffi()->new('coracle *');
        Library::call('open', Library::text($root), FFI::addr($options), FFI::addr($out));
        return new self($out);
    }

    /** @param array{0?: array<string, mixed>, 1?: ?float, 2?: ?callable} $arguments */
    public function __call(string $name, array $arguments): Answer
    {
        if ((Library::arguments($name)[0][1] ?? '') !== 'coracle *') {
            throw new \BadMethodCallException("coracle_$name takes no engine");
        }
        return (new Call($name, $this->pointer(), $arguments[0] ?? []))->run($arguments[1] ?? null, $arguments[2] ?? null);
    }

    /** Begins a call that takes an operation. */
    public function begin(string $name, array $given): Pending
    {
        $op = Op::make(1);
        (new Call($name, $this->pointer(), $given))->begin($op);
        return new Pending($op);
    }

    /** Another handle of the same engine, which stays open when this one is closed. */
    public function again(): self
    {
        $pointer = Library::raw('ref', $this->pointer());
        return $pointer === null ? throw new Misuse('the engine is closed, or this process is a fork', -7016, 'MISUSE') : new self($pointer);
    }

    /** Creates a container of a body of the HTTP API, with no network where the body names none. */
    public function create(array $body, ?string $name = null): Container
    {
        $body['HostConfig'] = ['NetworkMode' => 'none', ...(array) ($body['HostConfig'] ?? [])];
        $answer = $this->container_create(['name' => $name, 'body' => $body]);
        return new Container($this, $answer->id, $answer->json['Warnings'] ?? []);
    }

    /** The container of that name, id or beginning of an id. */
    public function container(string $id): Container
    {
        return new Container($this, $this->container_inspect(['id' => $id])->json['Id']);
    }

    /**
     * Loads every image of an archive (a path, a stream or a function): their names.
     *
     * @return list<string>
     */
    public function load(mixed $archive, ?float $timeout = null, ?callable $progress = null): array
    {
        return $this->image_load(['tar' => $archive], $timeout, $progress)->json;
    }

    /** Pulls an image from its registry: its id. platform, such as "linux/arm64", chooses of a list of images; null: this machine's. */
    public function pull(string $ref, ?string $platform = null, ?array $auth = null, ?float $timeout = null, ?callable $progress = null): string
    {
        $given = ['ref' => $ref, 'auth' => $auth === null ? null : (object) $auth];
        return $platform === null
            ? $this->image_pull($given, $timeout, $progress)->id
            : $this->image_pull_platform([...$given, 'platform' => $platform], $timeout, $progress)->id;
    }

    /** Builds an image of a directory; query: the parameters of POST /build. Its id. */
    public function build(string $directory, array $query = [], ?float $timeout = null, ?callable $progress = null): string
    {
        // O_RDONLY | O_NONBLOCK | O_CLOEXEC, the same on each processor as O_DIRECTORY is not; the library refuses another kind of file.
        $fd = Library::ffi()->open(Library::text($directory), 0x80800);
        if ($fd < 0) {
            throw new NotFound("there is no directory $directory", -7004, 'NOT_FOUND', 404);
        }
        try {
            return $this->image_build_dir(['query' => (object) $query, 'dirfd' => $fd], $timeout, $progress)->id;
        } finally {
            Library::ffi()->close($fd);
        }
    }

    /** Follows events; query as of GET /events. */
    public function events(array $query = []): Events
    {
        return $this->events_open(['query' => (object) $query])->events;
    }
}

/** A call that was begun. */
final class Pending
{
    public function __construct(private Op $op) {}

    /** Readable when result() has the answer at once. */
    public function fileno(): int
    {
        return Library::raw('op_fd', $this->op->pointer());
    }

    /** The answer; Timeout when so many seconds passed, and the call goes on. */
    public function result(?float $timeout = null): Answer
    {
        $result = Library::ffi()->new('coracle_result');
        $result->size = FFI::sizeof($result);
        while (($status = Library::call('op_result', $this->op->pointer(), FFI::addr($result))) === Library::AGAIN) {
            if (!Library::readable($this->fileno(), $timeout)) {
                throw new Timeout('the call did not end in time', -7011, 'TIMEOUT');
            }
        }
        $answer = new Answer();
        [$answer->status, $answer->code, $answer->id] = [$status, $result->code, Library::take($result->id)];
        $text = Library::take($result->json);
        $answer->json = $text === null ? null : json_decode($text, true);
        $answer->session = $result->session === null ? null : new Session($result->session);
        $answer->stream = $result->stream === null ? null : new Stream($result->stream);
        return $answer;
    }

    public function cancel(): void
    {
        Library::raw('op_cancel', $this->op->pointer());
    }

    public function close(): void
    {
        $this->op->close();
    }
}

/** A container, by its id; it outlives this object and this program. */
final class Container
{
    /** @param list<string> $warnings */
    public function __construct(private Engine $engine, public readonly string $id, public readonly array $warnings = []) {}

    public function inspect(): array
    {
        return $this->engine->container_inspect(['id' => $this->id])->json;
    }

    /** Starts it, detached; false where it ran already. */
    public function start(): bool
    {
        return !$this->engine->container_start(['id' => $this->id])->unchanged();
    }

    /** Starts it with its streams in hand; streams: descriptors `stdin`, `stdout`, `stderr`, and `rows`, `cols`. */
    public function startAttached(array $streams = []): Session
    {
        return $this->engine->container_start(['id' => $this->id, 'io' => $streams])->session ?? $this->attach();
    }

    public function attach(array $query = ['stdin' => true, 'stdout' => true, 'stderr' => true]): Session
    {
        return $this->engine->container_attach(['id' => $this->id, 'query' => $query])->session;
    }

    /** Its stop signal and, so many seconds later, SIGKILL; false where it did not run. */
    public function stop(float $grace = 10, ?float $timeout = null): bool
    {
        return !$this->engine->container_stop(['id' => $this->id, 'grace_ms' => (int) ($grace * 1000)], $timeout)->unchanged();
    }

    public function kill(?string $signal = null): void
    {
        $this->engine->container_kill(['id' => $this->id, 'signal' => $signal]);
    }

    /** Its exit code, 128 + n where signal n ended it. */
    public function wait(?float $timeout = null): int
    {
        return $this->engine->container_wait(['id' => $this->id], $timeout)->code;
    }

    /** The lines of its log: `foreach ($box->logs() as $line) echo $line['channel'], $line['data'];`. */
    public function logs(array $query = []): Stream
    {
        return $this->engine->container_logs(['id' => $this->id, 'query' => $query + ['stdout' => true, 'stderr' => true]])->stream;
    }

    /**
     * Runs another process in it to its end: exit code, stdout, stderr.
     *
     * @return array{int, string, string}
     */
    public function exec(array $command, string $input = ''): array
    {
        $body = ['Cmd' => $command, 'AttachStdin' => $input !== '', 'AttachStdout' => true, 'AttachStderr' => true];
        $id = $this->engine->exec_create(['id' => $this->id, 'body' => $body])->id;
        $session = $this->engine->exec_start(['id' => $id, 'io' => []])->session;
        [$stdout, $stderr] = $session->communicate($input);
        return [$session->wait(), $stdout, $stderr];
    }

    public function remove(bool $force = false, bool $volumes = false): void
    {
        $this->engine->container_remove(['id' => $this->id, 'flags' => $force * 1 | $volumes * 2]);
    }
}

/** An attached process. Closing it detaches: the process runs on. */
final class Session extends Handle
{
    protected const FREE = 'session_free';
    private const CHANNELS = ['stdin' => 0, 'stdout' => 1, 'stderr' => 2];

    /**
     * The next piece of output, ["stdout" or "stderr", bytes]; null when both have ended.
     *
     * @return ?array{string, string}
     */
    public function read(?float $timeout = null): ?array
    {
        $buffer = Library::ffi()->new('char[65536]');
        $channel = Library::ffi()->new('int32_t');
        $count = Op::within($timeout, fn ($op) => Library::call('session_read', $this->pointer(), $buffer, 65536, $op, FFI::addr($channel)));
        return $count === 0 ? null : [$channel->cdata === 1 ? 'stdout' : 'stderr', FFI::string($buffer, $count)];
    }

    /** Writes to stdin: how many bytes went, which may be fewer than all. */
    public function write(string $data, ?float $timeout = null): int
    {
        $memory = Library::ffi()->new('char[' . max(1, strlen($data)) . ']');
        FFI::memcpy($memory, $data, strlen($data));
        return Op::within($timeout, fn ($op) => Library::call('session_write', $this->pointer(), $memory, strlen($data), $op));
    }

    public function closeStdin(): void
    {
        Library::call('session_close_stdin', $this->pointer());
    }

    /** The descriptor of a stream, for an event loop; null where the session does not have it. */
    public function fileno(string $channel): ?int
    {
        $fd = Library::raw('session_fd', $this->pointer(), self::CHANNELS[$channel]);
        return $fd < 0 ? null : $fd;
    }

    /** Takes the descriptor of a stream, which the caller closes; null where the session does not have it. */
    public function take(string $channel): ?int
    {
        $fd = Library::raw('session_take_fd', $this->pointer(), self::CHANNELS[$channel]);
        return $fd < 0 ? null : $fd;
    }

    /**
     * Writes input and ends it, and reads both outputs to their ends: [stdout, stderr]. timeout: seconds for all of it.
     *
     * @return array{string, string}
     */
    public function communicate(string $input = '', ?float $timeout = null): array
    {
        $outputs = ['stdout' => '', 'stderr' => ''];
        $writes = $this->fileno('stdin') !== null;
        $step = self::stepsWithin($timeout);
        // Input goes whenever no output is waiting, so neither side waits for the other.
        while ($writes && $input !== '') {
            $wait = $step(0.02);
            try {
                $input = substr($input, $this->write(substr($input, 0, 65536), $wait));
            } catch (Timeout) {
                // The process reads nothing for now.
            } catch (Error) {
                break; // The process ended before it read everything.
            }
            $wait = $step(0.02);
            try {
                [$channel, $piece] = $this->read($wait) ?? ['stdout', ''];
                $outputs[$channel] .= $piece;
            } catch (Timeout) {
                continue;
            }
        }
        if ($writes) {
            $this->closeStdin();
        }
        while (($piece = $this->read($step())) !== null) {
            $outputs[$piece[0]] .= $piece[1];
        }
        return array_values($outputs);
    }

    /**
     * Bounds the steps of something that lasts so many seconds in all, or for ever (null): a function that gives the seconds of a step, at
     * most those that it is given, and that throws Timeout when the time is over.
     */
    private static function stepsWithin(?float $timeout): \Closure
    {
        $late = $timeout === null ? INF : hrtime(true) / 1e9 + $timeout;
        return function (float $most = INF) use ($late): ?float {
            $rest = $late - hrtime(true) / 1e9;
            if ($rest <= 0) {
                throw new Timeout('the process did not end its output in time', -7011, 'TIMEOUT');
            }
            $wait = min($rest, $most);
            return $wait === INF ? null : $wait;
        };
    }

    /** The exit code of the process, 128 + n where signal n ended it. */
    public function wait(?float $timeout = null): int
    {
        $code = Library::ffi()->new('int32_t');
        Op::within($timeout, fn ($op) => Library::call('session_wait', $this->pointer(), $op, FFI::addr($code)));
        return $code->cdata;
    }

    public function resize(int $rows, int $cols): void
    {
        Library::call('session_resize', $this->pointer(), $rows, $cols);
    }
}

/** Bytes or records out of the engine: a log, samples, an archive, the body of an answer. */
final class Stream extends Handle implements \IteratorAggregate
{
    protected const FREE = 'stream_free';

    /**
     * The next record, such as a line of a log; null at the end.
     *
     * @return ?array{channel: ?string, time_ns: int, data: string}
     */
    public function next(?float $timeout = null): ?array
    {
        $frame = Library::ffi()->new('coracle_frame');
        $frame->size = FFI::sizeof($frame);
        $status = Op::within($timeout, fn ($op) => Library::call('stream_next', $this->pointer(), $op, FFI::addr($frame)));
        if ($status === Library::DONE) {
            return null;
        }
        $data = $frame->len === 0 ? '' : FFI::string($frame->data, $frame->len);
        return ['channel' => [1 => 'stdout', 2 => 'stderr'][$frame->channel] ?? null, 'time_ns' => $frame->time_ns, 'data' => $data];
    }

    public function getIterator(): \Generator
    {
        while (($record = $this->next()) !== null) {
            yield $record;
        }
    }

    /** All bytes to the end. */
    public function readAll(): string
    {
        $buffer = Library::ffi()->new('char[65536]');
        $whole = '';
        while (($count = Library::call('stream_read', $this->pointer(), $buffer, 65536, null)) > 0) {
            $whole .= FFI::string($buffer, $count);
        }
        return $whole;
    }

    /** The descriptor, readable while there may be something. */
    public function fileno(): int
    {
        return $this->descriptor('stream_fd');
    }

    /** How many lines of a log were deleted before they were read. */
    public function lost(): int
    {
        return Library::raw('stream_lost', $this->pointer());
    }
}

/** Events of a root. */
final class Events extends Handle implements \IteratorAggregate
{
    protected const FREE = 'events_free';
    /** Whether the end (`until`) is reached. */
    public bool $ended = false;

    /** The next event; null when so many seconds passed, or at the end. */
    public function next(?float $timeout = null): ?array
    {
        $out = Library::ffi()->new('char *');
        $place = Library::ffi()->cast('const char **', FFI::addr($out));
        $status = Library::call('events_next', $this->pointer(), $timeout === null ? -1 : (int) ($timeout * 1000), $place);
        $this->ended = $status === Library::DONE;
        return $status === Library::OK ? json_decode(FFI::string($out), true) : null;
    }

    public function getIterator(): \Generator
    {
        while (($event = $this->next()) !== null) {
            yield $event;
        }
    }

    public function fileno(): int
    {
        return $this->descriptor('events_fd');
    }
}

/** A server of the HTTP API. */
final class Server extends Handle
{
    protected const FREE = 'http_server_free';

    /** @return list<string> */
    public function addresses(): array
    {
        return (new Call('http_server_addresses', $this->pointer(), []))->run()->json;
    }

    /** Accepts nothing any more; answers under way have so many seconds. */
    public function shutdown(float $grace = 2): void
    {
        (new Call('http_server_shutdown', $this->pointer(), ['grace_ms' => (int) ($grace * 1000)]))->run();
    }
}
