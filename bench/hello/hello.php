<?php
// hello.php ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
require 'Coracle.php';

function hello(Coracle\Engine $engine): void
{
    $box = $engine->create(['Image' => 'busybox', 'Cmd' => ['echo', 'hello'], 'HostConfig' => ['NetworkMode' => 'none']]);
    $session = $box->startAttached();
    echo $session->communicate('')[0];
    flush();
    $session->wait();
    $session->close();
    $box->remove();
    stream_get_contents(STDIN);
}

function calls(Coracle\Engine $engine, int $count): void
{
    $begun = hrtime(true);
    for ($done = 0; $done < $count; $done++) {
        $engine->container_list(['query' => ['all' => false]])->json;
    }
    echo intdiv(hrtime(true) - $begun, $count), "\n";
}

$engine = Coracle\Engine::open($argv[1]);
isset($argv[2]) ? calls($engine, (int) $argv[2]) : hello($engine);
