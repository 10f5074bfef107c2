"""What the figures are shown as: titles, goals, the table, the plot."""

import math
import statistics

from peers import MANY, THREADS

# (section, peer): at most so many times the peer's time, from the project's goals.
GOALS = {
    ("life", "crun run, no seccomp profile"): 1.0,
    ("life", "crun run, Docker's profile"): 0.33,
    ("life", "dockerd's socket, four calls"): 1 / 25,
    ("life", "docker run --rm --network none"): 1 / 40,
    ("start", "crun run --detach"): 1.0,
    ("start", "dockerd's socket"): 1 / 20,
    ("remove", "crun run --detach"): 1.0,
    ("remove", "dockerd's socket"): 1 / 20,
    ("list", "dockerd's socket"): 1 / 10,
    ("inspect", "dockerd's socket"): 1 / 2,
    ("put", "dockerd's socket"): 1 / 2,
    ("get", "dockerd's socket"): 1 / 2,
    ("export", "dockerd's socket"): 1 / 2,
    ("exec", "crun exec"): 1.0,
    ("exec", "dockerd's socket, three calls"): 1 / 10,
    ("write-32", "dockerd"): 1 / 10,
    ("write-8192", "dockerd"): 1 / 5,
    ("read-32", "dockerd's socket"): 1 / 20,
    ("read-8192", "dockerd's socket"): 1 / 20,
    ("attach", "dockerd's socket"): 1 / 5,
    ("stats", "dockerd's stream, without its client"): 0.2,
    ("load", "tar -x of its layers, sync"): 1.2,
    ("load", "dockerd's socket"): 1.0,
    ("pull", "dockerd's socket"): 1 / 2,
    ("push", "dockerd's socket"): 1 / 2,
    ("save", "dockerd's socket"): 1 / 2,
    ("commit", "dockerd's socket"): 1 / 5,
    ("commit-big", "dockerd's socket"): 1 / 5,
    ("build", "dockerd's socket"): 1 / 20,
    ("build-cached", "dockerd's socket"): 1 / 20,
}

# (section, row): at most so many ms.
BOUNDS = {
    ("end", "coracle"): 1.0,
    ("end", "coracle, the die event"): 1.0,
    ("stop", "coracle"): 5.0,
}

# The growth of the host program by any one operation on an image.
MEMORY = 64 << 20

TITLES = {
    "life": "Whole life of /bin/true: create, start, wait, remove",
    "exec": "Exec of /bin/true in a running container",
    "start": f"{MANY} containers created and started, {THREADS} at a time",
    "remove": f"Those {MANY} removed by force, {THREADS} at a time",
    "list": f"List of 400 containers, {MANY} of them running",
    "inspect": "Inspect of a running container",
    "put": "200 MB put into a container as an archive",
    "get": "The same got out of it",
    "export": "Export of that container",
    "write-32": "json-file log, lines of 32 bytes written",
    "read-32": "The same read back",
    "write-8192": "json-file log, lines of 8 KiB written",
    "read-8192": "The same read back ",
    "attach": "Bulk output, attached, no log",
    "end": "From a process's end to the return of who waits",
    "stop": "Stop of a willing container",
    "load": "Load of an image",
    "pull": "Pull of it from a registry on this machine",
    "push": "Push of it to an empty registry on this machine",
    "save": "Save of it",
    "commit": "Commit of a container with 64 KiB of changes",
    "commit-big": "Commit of a container with 100 MiB of changes",
    "build": "Build of ten RUN steps that do nothing",
    "build-cached": "The same build from the cache",
    "stats": "One sample of a container's use, processor time",
}


def bounded(value, most, unit):
    """What is said of a figure that may be so much at most."""
    return f"<= {most:g} {unit} {'met' if value <= most else 'MISSED'}"


def table(section, taken, size=0, goals=GOALS, titles=TITLES):
    """`size`: the bytes of the work, or 0."""
    own = statistics.median(taken["coracle"])
    lines = [f"\n{titles[section]}", f"  {'':34} {'min ms':>9} {'median ms':>10} {'coracle / it':>13}  goal"]
    for name, times in taken.items():
        median = statistics.median(times)
        ratio = own / median
        goal = goals.get((section, name))
        said = "" if goal is None else f"<= {goal:.3g} {'met' if ratio <= goal else 'MISSED'}"
        if (section, name) in BOUNDS:
            said = bounded(median / 1e6, BOUNDS[section, name], "ms")
        shown = "" if name == "coracle" else f"{ratio:.3f}"
        speed = f"{size / median * 1e3:8.0f} MB/s" if size else ""
        lines.append(f"  {name:34} {min(times) / 1e6:9.2f} {median / 1e6:10.2f} {shown:>13}  {speed} {said}".rstrip())
    return "\n".join(lines)


def plot(results, path):
    """Medians as bars on a logarithmic scale, one group a section."""
    bars = []
    for section, taken in results.items():
        bars.append((TITLES[section], None))
        bars += [(name, statistics.median(times) / 1e6) for name, times in taken.items()]
    values = [value for _, value in bars if value]


    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left, width, row = 250, 520, 22
    scale = lambda value: (math.log10(value) - low) / (high - low) * width
    height = row * len(bars) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for power in range(low, high + 1):
        x = left + scale(10**power)
        out.append(f'<line x1="{x}" x2="{x}" y1="10" y2="{height - 30}" stroke="#ddd"/>')
        out.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle">{10**power:g} ms</text>')
    for number, (name, value) in enumerate(bars):
        y = 10 + number * row
        if value is None:
            out.append(f'<text x="8" y="{y + 16}" font-weight="bold">{name}</text>')
            continue
        colour = "#1b7f5c" if name == "coracle" else "#9aa5b1"
        label = name.replace("&", "&amp;").replace("<", "&lt;")
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="{left}" y="{y + 3}" width="{max(scale(value), 1):.1f}" height="{row - 6}" fill="{colour}"/>')
        out.append(f'<text x="{left + scale(value) + 6:.1f}" y="{y + 15}">{value:.3g}</text>')
    path.write_text("\n".join(out + ["</svg>\n"]))
