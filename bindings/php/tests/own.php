<?php

/** What is particular to PHP: exceptions, callbacks, calls that were begun, handles that end with their objects. Environment: CORACLE_TEST_IMAGE. */

declare(strict_types=1);

require __DIR__ . '/../src/Coracle.php';

use Coracle\Engine;
use Coracle\Library;

const LONG = 300.0;

function same(mixed $expected, mixed $got): void
{
    $expected === $got || throw new Exception('wanted ' . json_encode($expected) . ', got ' . json_encode($got));
}

function raises(string $class, callable $work): Throwable
{
    try {
        $work();
    } catch (Throwable $problem) {
        return $problem instanceof $class ? $problem : throw $problem;
    }
    throw new Exception("no $class");
}

function running(Engine $engine): Coracle\Container
{
    $box = $engine->create(['Image' => 'busybox', 'Cmd' => ['sh', '-c', 'echo ready; exec sleep 1000']]);
    same(['stdout', "ready\n"], $box->startAttached()->read(LONG));
    return $box;
}

$image = (string) getenv('CORACLE_TEST_IMAGE');
$tests = [
    'errors have a kind, a status and the field' => function (Engine $engine): void {
        $problem = raises(Coracle\NotFound::class, fn () => $engine->container('nobody'));
        same(['NOT_FOUND', 404, -7004, 'No such container: nobody'], [$problem->kind, $problem->status, $problem->getCode(), $problem->getMessage()]);
        $problem = raises(Coracle\Invalid::class, fn () => $engine->create(['Image' => 'busybox', 'HostConfig' => ['Memory' => 'lots']]));
        same('HostConfig.Memory', $problem->detail['field']);
        raises(TypeError::class, fn () => $engine->container_inspect(['id' => 5]));
        raises(TypeError::class, fn () => $engine->container_inspect(['di' => 'x']));
        raises(BadMethodCallException::class, fn () => $engine->container_fly());
    },
    'a deadline ends a wait, and the container runs on' => function (Engine $engine): void {
        $box = running($engine);
        raises(Coracle\Timeout::class, fn () => $box->wait(0.05));
        same(true, $box->inspect()['State']['Running']);
        $box->kill();
        same(137, $box->wait(LONG));
    },
    'a call that was begun has a descriptor, and can be cancelled' => function (Engine $engine): void {
        $box = $engine->create(['Image' => 'busybox', 'Cmd' => ['sh', '-c', 'exit 7']]);
        $pending = $engine->begin('container_wait', ['id' => $box->id, 'condition' => 'next-exit']);
        raises(Coracle\Timeout::class, fn () => $pending->result(0.05));
        $box->start();
        same(true, Library::readable($pending->fileno(), LONG));
        same(7, $pending->result()->code);
        $other = $engine->begin('container_wait', ['id' => running($engine)->id]);
        $other->cancel();
        raises(Coracle\Cancelled::class, fn () => $other->result(LONG));
        $other->close();
        raises(Coracle\Misuse::class, fn () => $other->result());
    },
    'exceptions of callbacks come out of the call' => function (Engine $engine) use ($image): void {
        $records = [];
        $engine->load($image, null, function (array $record) use (&$records): void {
            $records[] = $record;
        });
        same(true, $records !== []);
        $stop = fn () => throw new LogicException('stop');
        raises(LogicException::class, fn () => $engine->load($image, null, $stop));
        raises(LogicException::class, fn () => $engine->load($stop));
        same(['busybox:latest'], $engine->load(fopen($image, 'rb')));
    },
    'a function that gives more than was asked for is an error' => function (Engine $engine): void {
        raises(LengthException::class, fn () => $engine->load(fn () => str_repeat('x', 4 << 20)));
    },
    'a bound of communicate holds for the whole: while input waits, and however often something comes' => function (Engine $engine): void {
        $end = 'sleep ' . (int) LONG;
        foreach ([$end, "while :; do echo .; sleep 0.05; done & $end; kill %1"] as $script) {
            $session = $engine->create(['Image' => 'busybox', 'Cmd' => ['sh', '-c', $script], 'OpenStdin' => true])->startAttached();
            raises(Coracle\Timeout::class, fn () => $session->communicate(str_repeat('x', 4 << 20), 0.5));
            raises(Coracle\Timeout::class, fn () => $session->communicate('', 0.5));
        }
    },
    "a stream's descriptor can be taken" => function (Engine $engine): void {
        $session = $engine->create(['Image' => 'busybox', 'Cmd' => ['echo', 'mine']])->startAttached();
        $fd = $session->take('stdout');
        same("mine\n", file_get_contents("php://fd/$fd"));
        Library::ffi()->close($fd);
        same(null, $session->fileno('stdout'));
    },
    'an exec, samples, events, a terminal' => function (Engine $engine): void {
        $events = $engine->events(['filters' => ['type' => ['container'], 'event' => ['start']]]);
        $box = running($engine);
        same($box->id, $events->next(LONG)['Actor']['ID']);
        same(null, $events->next(0));
        same([3, 'x', "e\n"], $box->exec(['sh', '-c', 'cat; echo e >&2; exit 3'], 'x'));
        $samples = $engine->container_stats(['id' => $box->id, 'query' => ['stream' => true]])->stream;
        same(true, json_decode($samples->next()['data'])->pids_stats->current > 0);
        $terminal = $engine->create(['Image' => 'busybox', 'Cmd' => ['stty', 'size'], 'Tty' => true])->startAttached(['rows' => 11, 'cols' => 22]);
        same(["11 22\r\n", ''], $terminal->communicate('', LONG));
        $events->close();
        $events->close();
        raises(Coracle\Misuse::class, fn () => $events->next(0));
    },
    'handles end with their objects' => function (Engine $engine): void {
        $box = running($engine);
        $before = count(scandir('/proc/self/fd'));
        for ($round = 0; $round < 20; $round++) {
            $box->logs(['follow' => true]);
            $engine->events();
            raises(Coracle\Error::class, fn () => $engine->load('/dev/null'));
        }
        for ($end = time() + LONG; count(scandir('/proc/self/fd')) > $before && time() < $end;) {
            usleep(50_000);
        }
        same(true, count(scandir('/proc/self/fd')) <= $before);
    },
];

$failed = 0;
foreach ($tests as $name => $test) {
    $directory = sys_get_temp_dir() . '/coracle-php-' . bin2hex(random_bytes(5));
    $engine = Engine::open("$directory/root", "$directory/run", [], ['durability' => 'off']);
    try {
        $engine->load($image);
        $test($engine);
    } catch (Throwable $problem) {
        $failed++;
        fwrite(STDERR, "failed: $name\n$problem\n");
    }
    foreach ($engine->container_list(['query' => ['all' => true]])->json as $found) {
        $engine->container_remove(['id' => $found['Id'], 'flags' => 1]);
    }
    $engine->close();
    exec('rm -rf ' . escapeshellarg($directory));
}
echo count($tests) - $failed, " passed, $failed failed\n";
exit($failed === 0 ? 0 : 1);
