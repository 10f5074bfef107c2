<?php

/** Runs the scenarios that all bindings share (bindings/scenarios) by the PHP binding. Environment: as of the runner of Python. */

declare(strict_types=1);

require __DIR__ . '/../src/Coracle.php';

use Coracle\Engine;
use Coracle\Error;
use Coracle\Library;

const FEATURES = ['dynamic'];
const THREADS = ['spawn', 'parallel', 'scope'];
/** Scenarios that cannot be run in PHP, with the reasons; those with other threads are found by their steps. */
const LEFT_OUT = [
    "the log sink gets the library's messages and ends" => 'the library calls the sink on threads of its own, where no PHP may run',
    'a level of the log that does not exist is refused' => 'the library calls the sink on threads of its own, where no PHP may run',
];
const OWN = ['do', 'on', 'of', 'as', 'error', 'status', 'detail', 'has', 'expect', 'save', 'timeout_ms', 'progress', 'refuse', 'retry', 'needs'];

$list = json_decode((string) file_get_contents((string) getenv('CORACLE_SCENARIOS')), false, 512, JSON_THROW_ON_ERROR);
define('LONG', (int) (getenv('CORACLE_TEST_SECONDS') ?: 300));

class Wrong extends Exception {}
class Caller extends Exception {}

function wrong(string $message): never
{
    throw new Wrong($message);
}

function show(mixed $value): string
{
    return substr((string) json_encode($value, JSON_UNESCAPED_UNICODE | JSON_PARTIAL_OUTPUT_ON_ERROR), 0, 500);
}

function matches(string $how, mixed $value, mixed $got): bool
{
    return match ($how) {
        '$has' => is_string($got) && str_contains($got, $value),
        '$above' => (is_int($got) || is_float($got)) && $got > $value,
        '$len' => (is_string($got) ? strlen($got) : count($got ?? [])) === $value,
        '$len_above' => (is_string($got) ? strlen($got) : count($got ?? [])) > $value,
        '$not' => $got !== null && $got !== $value,
        '$one_of' => in_array($got, $value, true),
        '$contains' => is_array($got) && array_filter($got, fn ($one) => fits($value, $one)) !== [],
    };
}

function fits(mixed $expected, mixed $got): bool
{
    try {
        check($expected, $got, '');
        return true;
    } catch (Wrong) {
        return false;
    }
}

function check(mixed $expected, mixed $got, string $where = 'result'): void
{
    if ($expected instanceof stdClass) {
        foreach (get_object_vars($expected) as $key => $value) {
            if (str_starts_with((string) $key, '$')) {
                matches($key, $value, $got) || wrong("$where: wanted $key " . show($value) . ', got ' . show($got));
            } else {
                is_array($got) || wrong("$where: wanted an object, got " . show($got));
                check($value, $got[$key] ?? null, "$where.$key");
            }
        }
    } elseif (is_array($expected)) {
        is_array($got) && count($got) === count($expected) || wrong("$where: wanted " . show($expected) . ', got ' . show($got));
        foreach ($expected as $at => $one) {
            check($one, $got[$at], "{$where}[$at]");
        }
    } elseif ($expected !== $got) {
        wrong("$where: wanted " . show($expected) . ', got ' . show($got));
    }
}

function tar_of(stdClass $files): string
{
    $tar = '';
    foreach (get_object_vars($files) as $name => $text) {
        $head = pack('a100a8a8a8a12a12', $name, '0000644', '0000000', '0000000', sprintf('%011o', strlen($text)), '00000000000');
        $tail = pack('a1a100a6a2a247', '0', '', "ustar\0", '00', '');
        $sum = 8 * 32 + array_sum(unpack('C*', $head)) + array_sum(unpack('C*', $tail));
        $tar .= $head . sprintf("%06o\0 ", $sum) . $tail . $text . str_repeat("\0", -strlen($text) & 511);
    }
    return $tar . str_repeat("\0", 1024);
}

/** The small files of a tar. */
function files_of(Coracle\Stream $stream): array
{
    [$bytes, $found] = [$stream->readAll(), []];
    for ($at = 0; $at < strlen($bytes) && $bytes[$at] !== "\0"; $at += 512 + $length + (-$length & 511)) {
        $name = rtrim(substr($bytes, $at, 100), "\0");
        $length = octdec(substr($bytes, $at + 124, 11));
        if (in_array($bytes[$at + 156], ['0', "\0"], true) && $length < 4096) {
            $found[$name] = substr($bytes, $at + 512, $length);
        }
    }
    return $found;
}

function giver(string $text): callable
{
    return function (int $length) use (&$text): string {
        $piece = substr($text, 0, $length);
        $text = substr($text, $length);
        return $piece;
    };
}

function repeated(mixed $value): string
{
    return $value instanceof stdClass ? str_repeat($value->repeat, $value->times) : (string) $value;
}

function parsed(string $body): mixed
{
    return json_decode($body, true) ?? trim($body);
}

/** The answer to a request that was sent: a whole answer of HTTP. */
function answered(string $answer): array
{
    [$head, $body] = explode("\r\n\r\n", $answer, 2);
    return ['status' => (int) explode(' ', $head)[1], 'body' => parsed($body)];
}

final class Run
{
    public array $values;
    private array $things = [];
    private array $seen = [];
    private Engine $engine;

    public function __construct(private stdClass $list, private string $directory)
    {
        $this->values = [...get_object_vars($list->values), 'dir' => $directory, 'archive' => getenv('CORACLE_TEST_IMAGE'), 'registry' => getenv('CORACLE_TEST_REGISTRY')];
        $this->engine = Engine::open("$directory/root", "$directory/run", [], ['durability' => 'off']);
        $this->things['engine'] = $this->engine;
        [$this->values['image']] = $this->engine->load(getenv('CORACLE_TEST_IMAGE'));
    }

    public function end(): void
    {
        foreach ($this->engine->container_list(['query' => ['all' => true]])->json as $found) {
            try {
                $this->engine->container_remove(['id' => $found['Id'], 'flags' => 3]);
            } catch (Coracle\NotFound) {
                continue;
            }
        }
        foreach ($this->engine->plugin_list()->json as $plugin) {
            $this->engine->plugin_remove(['name' => $plugin['Id'], 'flags' => 1]);
        }
        $this->engine->network_prune();
        $this->engine->network_release();
        foreach ($this->things as $thing) {
            is_int($thing) ? Library::ffi()->close($thing) : $thing->close();
        }
    }

    public function steps(array $steps): void
    {
        foreach ($steps as $step) {
            if (array_diff($step->needs ?? [], FEATURES) !== []) {
                continue;
            }
            isset($step->use) ? $this->steps($this->list->fragments->{$step->use}) : $this->step($step);
        }
    }

    private function step(stdClass $step): void
    {
        $deadline = time() + LONG;
        while (true) {
            try {
                $this->once($step);
                return;
            } catch (Wrong $problem) {
                if (!isset($step->retry) || time() > $deadline) {
                    wrong(substr(show($step), 0, 200) . ': ' . $problem->getMessage());
                }
                usleep(50_000);
            }
        }
    }

    private function once(stdClass $step): void
    {
        $given = $this->filled($step);
        try {
            $result = $this->perform($given);
        } catch (Error | Caller | TypeError $problem) {
            $this->failed($given, $problem);
            return;
        }
        isset($given->error) && wrong("wanted $given->error, got " . show($result));
        property_exists($given, 'expect') && check($given->expect, $result);
        foreach (get_object_vars($given->save ?? new stdClass()) as $name => $path) {
            $value = $result;
            foreach (array_filter(explode('.', $path)) as $part) {
                $value = $value[$part];
            }
            $this->values[$name] = $value;
        }
    }

    private function failed(stdClass $given, Throwable $problem): void
    {
        $code = $problem instanceof Error ? $problem->kind : ($problem instanceof Caller ? 'CALLER' : 'TYPE');
        $code === ($given->error ?? null) || wrong('wanted ' . ($given->error ?? 'success') . ", got $code: $problem");
        isset($given->status) && check($given->status, $problem->status, 'status');
        isset($given->detail) && check($given->detail, $problem->detail, 'detail');
        !isset($given->has) || str_contains($problem->getMessage(), $given->has) || wrong("wanted $given->has in " . $problem->getMessage());
    }

    /** The value with the values of names such as $id; $$ is a dollar sign. */
    private function filled(mixed $value): mixed
    {
        if ($value instanceof stdClass) {
            return (object) array_map($this->filled(...), get_object_vars($value));
        }
        if (is_array($value)) {
            return array_map($this->filled(...), $value);
        }
        if (!is_string($value) || !str_contains($value, '$')) {
            return $value;
        }
        $name = substr($value, 1);
        if ($value[0] === '$' && array_key_exists($name, $this->values)) {
            return $this->values[$name] instanceof stdClass ? $this->filled($this->values[$name]) : $this->values[$name];
        }
        return preg_replace_callback('/\$(\$?)(\w*)/', function (array $found): string {
            if ($found[1] !== '') {
                return '$' . $found[2];
            }
            // The longest name that the text begins with.
            for ($length = strlen($found[2]); $length > 0; $length--) {
                $known = $this->values[substr($found[2], 0, $length)] ?? null;
                if (is_string($known)) {
                    return $known . substr($found[2], $length);
                }
            }
            return $found[0];
        }, $value);
    }

    private function on(stdClass $given): Engine
    {
        return $this->things[$given->on ?? 'engine'];
    }

    private function of(stdClass $given): mixed
    {
        return $this->things[$given->of];
    }

    private function source(stdClass $given): mixed
    {
        if (isset($given->broken)) {
            return fn () => throw new Caller('the source is broken');
        }
        if (isset($given->path) && $given->do === 'image_load') {
            return $given->path;
        }
        return giver(isset($given->bytes) ? repeated($given->bytes) : tar_of($given->files));
    }

    /** Calls a function with its arguments and what the step says about deadline and progress. */
    private function call(stdClass $given, string $name, array $arguments): Coracle\Answer
    {
        return $this->on($given)->$name(array_filter($arguments, fn ($value) => $value !== null), ...$this->how($given));
    }

    /** @return array{?float, ?callable} the deadline in seconds, and the function that gets records of progress */
    private function how(stdClass $given): array
    {
        $progress = null;
        if (isset($given->refuse)) {
            $progress = fn () => throw new Caller('refused');
        } elseif (isset($given->progress)) {
            $this->values[$given->progress] = [];
            $progress = function (array $record) use ($given): void {
                $this->values[$given->progress][] = $record;
            };
        }
        return [isset($given->timeout_ms) ? $given->timeout_ms / 1000 : null, $progress];
    }

    private function late(stdClass $given): ?float
    {
        return isset($given->timeout_ms) ? $given->timeout_ms / 1000 : null;
    }

    private function open(stdClass $given): void
    {
        $config = get_object_vars($given->config ?? new stdClass());
        $this->things[$given->as] = Engine::open($given->root, $given->run_dir, $given->flags ?? [], $config);
    }

    private function start(stdClass $given): array
    {
        if (!isset($given->attach)) {
            return ['changed' => !$this->call($given, 'container_start', ['id' => $given->id])->unchanged()];
        }
        $io = ['rows' => $given->rows ?? 0, 'cols' => $given->cols ?? 0];
        $this->things[$given->as] = (new Coracle\Container($this->on($given), $given->id))->startAttached($io);
        return ['changed' => true];
    }

    private function stats(stdClass $given): array
    {
        $query = isset($given->count) ? ['stream' => true] : ['stream' => false, 'one-shot' => true];
        $stream = $this->call($given, 'container_stats', ['id' => $given->id, 'query' => $query])->stream;
        $stream->fileno();
        return array_map(fn () => json_decode($stream->next()['data'], true), range(1, $given->count ?? 1));
    }

    private function read(stdClass $given): array
    {
        $this->seen[$given->of] ??= ['stdout' => '', 'stderr' => ''];
        $seen = &$this->seen[$given->of];
        while (!$this->there($given, $seen) && ($piece = $this->of($given)->read($this->late($given))) !== null) {
            $seen[$piece[0]] .= $piece[1];
        }
        !isset($given->until) || $this->there($given, $seen) || wrong("the output ended without $given->until");
        return $seen;
    }

    /** Whether the text that a step reads for has come. */
    private function there(stdClass $given, array $seen): bool
    {
        $channels = isset($given->channel) ? [$given->channel] : array_keys($seen);
        return isset($given->until) && array_filter($channels, fn ($name) => str_contains($seen[$name], $given->until)) !== [];
    }

    private function logs(stdClass $given): array
    {
        $query = get_object_vars($given->query ?? new stdClass());
        $query += isset($query['stdout']) || isset($query['stderr']) ? [] : ['stdout' => true, 'stderr' => true];
        $stream = $this->call($given, 'container_logs', ['id' => $given->id, 'query' => $query])->stream;
        return array_map($this->line(...), iterator_to_array($stream, false));
    }

    private function line(array $record): array
    {
        return ['channel' => $record['channel'], 'text' => rtrim($record['data'], "\n")];
    }

    private function until(stdClass $given): array
    {
        for ($actions = []; end($actions) !== $given->action;) {
            $event = $this->of($given)->next(LONG) ?? wrong('the events end at ' . show($actions));
            $actions[] = $event['Action'];
        }
        return $actions;
    }

    private function save(stdClass $given): array
    {
        $bytes = $this->call($given, 'image_save', ['refs' => ['names' => $given->names, 'layout' => $given->layout]])->stream->readAll();
        isset($given->file) && file_put_contents($given->file, $bytes);
        return ['bytes' => strlen($bytes)];
    }

    private function buildDir(stdClass $given): array
    {
        $context = "$this->directory/context" . count(scandir($this->directory));
        mkdir($context);
        foreach (get_object_vars($given->files) as $name => $text) {
            file_put_contents("$context/$name", $text);
        }
        return ['id' => $this->on($given)->build($context, get_object_vars($given->query))];
    }

    private function connected(stdClass $given): array
    {
        $fd = $this->call($given, 'http_connect', [])->fd;
        $stream = fopen("php://fd/$fd", 'r+');
        Library::ffi()->close($fd);
        return $this->asked($stream, $given->target);
    }

    /** @param resource $stream */
    private function asked($stream, string $target): array
    {
        fwrite($stream, "GET $target HTTP/1.0\r\nHost: localhost\r\n\r\n");
        return answered((string) stream_get_contents($stream));
    }

    private function requested(stdClass $given): array
    {
        $body = isset($given->body) ? json_encode($given->body) : '';
        $arguments = ['method' => $given->method, 'target' => $given->target, 'headers' => $given->headers ?? new stdClass(), 'body' => $body];
        $answer = $this->call($given, 'http_request', $arguments);
        return ['status' => $answer->code, 'body' => parsed($answer->stream->readAll())];
    }

    private function next(stdClass $given): array
    {
        $events = $this->of($given);
        return $events->next($this->late($given)) ?? [$events->ended ? 'done' : 'again' => true];
    }

    /** A step without a case of its own calls the function of that name with the step's members. */
    private function perform(stdClass $given): mixed
    {
        $arguments = array_diff_key(get_object_vars($given), array_flip(OWN));
        $flags = ($given->force ?? false) * 1 | (($given->volumes ?? false) || ($given->no_prune ?? false)) * 2;
        return match ($given->do) {
            'sleep' => usleep($given->ms * 1000),
            'value' => $given->value,
            'file_exists' => file_exists($given->path),
            'version' => ['text' => Library::version()[0], 'number' => Library::raw('version')],
            'build_info' => Library::buildInfo(),
            'has_feature' => Library::hasFeature($given->name),
            'status_name' => Library::statusName($given->code),
            'host_report' => Library::hostReport($given->root),
            'open' => $this->open($given),
            'ref' => $this->things[$given->as] = $this->on($given)->again(),
            'close' => $this->on($given)->close(),
            'container_create' => (fn ($answer) => ['id' => $answer->id, 'Warnings' => $answer->json['Warnings'] ?? null])($this->call($given, $given->do, $arguments)),
            'container_start' => $this->start($given),
            'container_attach' => $this->things[$given->as] = $this->call($given, $given->do, ['id' => $given->id, 'query' => $given->query ?? ['stdin' => true, 'stdout' => true, 'stderr' => true]])->session,
            'container_stop', 'container_stop_with' => ['changed' => !$this->call($given, $given->do, $arguments)->unchanged()],
            'container_inspect' => $this->call($given, $given->do, ['id' => $given->id, 'with_size' => $given->size ?? false])->json,
            'container_wait', 'exec_wait' => ['code' => $this->call($given, $given->do, $arguments)->code],
            'container_commit', 'exec_create', 'network_create', 'plugin_pull' => ['id' => $this->call($given, $given->do, $arguments)->id],
            'begin_wait' => $this->things[$given->as] = $this->on($given)->begin('container_wait', $arguments),
            'pending_result' => ['code' => $this->of($given)->result(LONG)->code],
            'container_pidfd' => ['ended' => Library::readable($this->things[$given->as ?? 'pidfd'] = $this->call($given, $given->do, $arguments)->fd, 0)],
            'pidfd_wait' => Library::readable($this->of($given), LONG) || wrong('the descriptor does not become readable'),
            'container_remove' => $this->call($given, $given->do, ['id' => $given->id, 'flags' => $flags]),
            'container_update' => $this->call($given, $given->do, $arguments)->json['Warnings'] ?? [],
            'container_stats' => $this->stats($given),
            'container_get_archive' => (fn ($answer) => ['files' => files_of($answer->stream), 'stat' => $answer->json])($this->call($given, $given->do, $arguments)),
            'container_put_archive' => $this->call($given, $given->do, ['id' => $given->id, 'path' => $given->path, 'tar' => $this->source($given)]),
            'container_export' => ['files' => files_of($this->call($given, $given->do, $arguments)->stream)],
            'lease_hold' => $this->things[$given->as] = $this->call($given, $given->do, $arguments)->fd,
            'lease_free' => $this->leave($given->of),
            'session_read' => $this->read($given),
            'session_write' => ['count' => $this->of($given)->write($given->data)],
            'session_close_stdin' => $this->of($given)->closeStdin(),
            'session_streams' => array_combine(['stdout', 'stderr'], $this->of($given)->communicate(repeated($given->input), LONG)),
            'session_fd' => $this->of($given)->fileno($given->channel) !== null,
            'session_resize' => $this->of($given)->resize($given->rows, $given->cols),
            'session_wait' => ['code' => $this->of($given)->wait($this->late($given))],
            'session_free', 'stream_free', 'events_free', 'http_server_free' => $this->of($given)->close(),
            'exec_start' => $this->execute($given),
            'container_logs' => $this->logs($given),
            'logs_open' => $this->things[$given->as] = (new Coracle\Container($this->on($given), $given->id))->logs(get_object_vars($given->query)),
            'logs_next' => $this->line($this->of($given)->next($this->late($given))),
            'stream_fd', 'events_fd' => $this->of($given)->fileno() >= 0,
            'stream_lost' => $this->of($given)->lost(),
            'events_open' => $this->things[$given->as] = $this->call($given, $given->do, $arguments)->events,
            'events_next' => $this->next($given),
            'events_until' => $this->until($given),
            'image_remove' => $this->call($given, $given->do, ['ref' => $given->ref, 'flags' => $flags])->json,
            'image_pull' => ['id' => $this->on($given)->pull($given->ref, $given->platform ?? null, null, ...$this->how($given))],
            'image_load' => $this->call($given, $given->do, ['tar' => $this->source($given)])->json,
            'image_save' => $this->save($given),
            'image_import', 'image_build' => ['id' => $this->call($given, $given->do, ['query' => $given->query, 'tar' => $this->source($given)])->id],
            'image_build_dir' => $this->buildDir($given),
            'plugin_disable', 'plugin_remove' => $this->call($given, $given->do, ['name' => $given->name, 'flags' => $flags]),
            'http_request' => $this->requested($given),
            'http_connect' => $this->connected($given),
            'http_get_unix' => $this->asked(stream_socket_client("unix://$given->path"), $given->target),
            'http_serve' => $this->things[$given->as] = $this->call($given, $given->do, $arguments)->server,
            'http_server_addresses' => $this->of($given)->addresses(),
            'http_server_shutdown' => $this->of($given)->shutdown($given->grace_ms / 1000),
            default => $this->call($given, $given->do, $arguments)->json,
        };
    }

    private function leave(string $name): void
    {
        Library::ffi()->close($this->things[$name]);
        unset($this->things[$name]);
    }

    private function execute(stdClass $given): void
    {
        $session = $this->call($given, 'exec_start', ['id' => $given->id, 'io' => isset($given->attach) ? [] : null])->session;
        if (isset($given->attach)) {
            $this->things[$given->as] = $session;
        }
    }
}

function run(stdClass $list, stdClass $scenario): ?string
{
    $directory = sys_get_temp_dir() . '/scn-' . bin2hex(random_bytes(5));
    mkdir($directory);
    $problem = $one = null;
    try {
        $one = new Run($list, $directory);
        $one->steps($scenario->steps);
    } catch (Wrong $wrong) {
        $problem = $wrong->getMessage();
    } catch (Throwable $other) {
        $problem = (string) $other;
    }
    try {
        $one?->end();
    } catch (Throwable $other) {
        $problem ??= (string) $other;
    }
    exec('rm -rf ' . escapeshellarg($directory));
    return $problem;
}

function reason(stdClass $scenario): ?string
{
    $missing = array_diff($scenario->needs ?? [], FEATURES);
    $threads = array_filter($scenario->steps, fn ($step) => in_array($step->do ?? '', THREADS, true));
    return $missing !== [] ? implode(', ', $missing) : ($threads !== [] ? 'PHP has no threads' : LEFT_OUT[$scenario->name] ?? null);
}

[$passed, $failures, $leftOut] = [0, 0, []];
foreach ($list->scenarios as $scenario) {
    if (!str_contains($scenario->name, $argv[1] ?? '')) {
        continue;
    }
    $reason = reason($scenario);
    if ($reason !== null) {
        $leftOut[] = "$scenario->name ($reason)";
        continue;
    }
    $problem = run($list, $scenario);
    $problem === null ? $passed++ : $failures++;
    if ($problem !== null) {
        echo "failed: $scenario->name\n    $problem\n";
    }
}
foreach ($leftOut as $name) {
    echo "not for PHP: $name\n";
}
echo "$passed passed, $failures failed\n";
exit($failures === 0 ? 0 : 1);
