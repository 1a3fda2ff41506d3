"""``tribit serve`` under attack: honest clients beside bad ones, with the memory of the service.

Honest clients ask ``/recommend`` at a fixed rate from this process; bad ones run in another process, from other
addresses, two of each kind, and begin again as soon as they were refused. All share the cores with the service.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from multiprocessing.queues import Queue
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from benchmarks.measure import machine, print_table
from benchmarks.serve import HOST, Load, answer, post, saved, started

#: Bad clients of each kind.
CLIENTS_PER_KIND = 2
#: Silent connections of one client: two clients hold 1,100, more than the service has.
SILENT = 550
#: Seconds between two attempts of a bad client.
PAUSE = 0.1
LINE = b"X-More: " + b"x" * 8000 + b"\r\n"
START = f"GET /recommend?row=1 HTTP/1.1\r\n{HOST}".encode()
#: Bodies of one megabyte and less, and other requests that are answered by an error.
WRONG = {
    "body of 340,000 empty pairs": post(b'{"pairs":[' + b"{}," * 340_000 + b"{}]}"),
    "body of 80,000 unknown fields": post(
        b"{" + b",".join(b'"%x":1' % n for n in range(80_000)) + b"}"
    ),
    "body of 9,000 wrong pairs": post(b'{"rows":[' + b'"a",' * 9000 + b"1.5]}"),
    "broken JSON": post(b'{"rows": ['),
    "body too large": post(b" " * (2**20 + 1)),
    "unknown host": START.replace(b"localhost", b"evil.example") + b"\r\n",
}
#: Kinds of bad clients: those with wrong requests, and those that misuse their connection.
KINDS = (*WRONG, "headers without end", "silent connections", "headers byte by byte", "slow body")


@contextlib.asynccontextmanager
async def connected(
    port: int, source: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Return a connection from an address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def attempt(kind: str, port: int, source: str, until: float) -> int:
    """Return the status of one attempt; 0 for a connection that was closed without one."""
    if kind == "silent connections":
        silent = [
            await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            for _ in range(SILENT)
        ]
        await asyncio.sleep(max(0.0, min(5.0, until - time.perf_counter())))
        for _, writer in silent:
            writer.close()
        return 0
    async with connected(port, source) as (reader, writer):
        if kind in WRONG:
            writer.write(WRONG[kind])
            return (await answer(reader))[0]
        writer.write(post(b"", 1000) if kind == "slow body" else START)
        part = LINE if kind == "headers without end" else b"x"
        reading = asyncio.create_task(answer(reader))
        with contextlib.suppress(OSError):
            while time.perf_counter() < until and not reading.done():
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0 if part is LINE else 0.2)
        if not reading.done():
            reading.cancel()
        (found,) = await asyncio.gather(reading, return_exceptions=True)
        return 0 if isinstance(found, BaseException) else found[0]


async def attack(port: int, seconds: float) -> Counter[tuple[str, int]]:
    """Return the numbers of statuses that bad clients of all kinds got."""
    found: Counter[tuple[str, int]] = Counter()
    until = time.perf_counter() + seconds

    async def client(kind: str, source: str) -> None:
        while time.perf_counter() < until:
            status = 0
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                status = await attempt(kind, port, source, until)
            found[kind, status] += 1
            await asyncio.sleep(PAUSE)

    sources = [
        (kind, f"127.0.0.{2 + at % CLIENTS_PER_KIND}")
        for at in range(CLIENTS_PER_KIND)
        for kind in KINDS
    ]
    await asyncio.gather(*(client(*each) for each in sources))
    return found


def _attack(port: int, seconds: float, results: Queue) -> None:  # type: ignore[type-arg]
    results.put(asyncio.run(attack(port, seconds)))


@contextlib.contextmanager
def attacked(port: int, seconds: float) -> Iterator[Counter[tuple[str, int]]]:
    """Attack from another process; in the end the counter has the statuses that bad clients got."""
    context = multiprocessing.get_context("spawn")
    results, found = context.Queue(), Counter()
    attacker = context.Process(target=_attack, args=(port, seconds, results))
    attacker.start()
    try:
        yield found
        found.update(results.get(timeout=120))
    finally:
        attacker.terminate()
        attacker.join()


async def honest(port: int, n_rows: int, seconds: float, rate: float, clients: int) -> Load:
    """Return the answers to clients who ask at a rate together, half of them for lists that are not kept."""
    load = Load(port, n_rows)
    start = time.perf_counter()
    each = rate / clients
    offsets = np.arange(clients) / rate
    await asyncio.gather(
        *(
            load.good(start + seconds, each, at % 2 == 0, start + float(offset))
            for at, offset in enumerate(offsets)
        )
    )
    return load


def memory(process: int) -> float:
    """Return the resident memory of a process in megabytes."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


def processor_seconds(process: int) -> float:
    """Return the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print latencies of honest clients alone and beside bad ones, and the memory of the service."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the attack")
    parser.add_argument("--rate", type=float, default=500.0, help="honest requests/s")
    parser.add_argument("--clients", type=int, default=200, help="honest and bad ones together")
    given = parser.parse_args()
    load_before = os.getloadavg()[0]
    n_bad = CLIENTS_PER_KIND * len(KINDS)
    n_honest = given.clients - n_bad
    rows, found = [], Counter()
    with tempfile.TemporaryDirectory() as folder:
        name, path, n_rows = saved(Path(folder))
        process, port = started(path, 1)
        try:
            # The first load fills the cache of lists, so that the memory before and after can be compared.
            for title, seconds, bad in (
                ("warm-up", 20.0, False),
                ("honest clients alone", 15.0, False),
                (f"beside {n_bad} bad clients", given.seconds, True),
                ("honest clients alone, afterwards", 15.0, False),
            ):
                before, taken = memory(process.pid), processor_seconds(process.pid)
                with (
                    attacked(port, seconds) if bad else contextlib.nullcontext(Counter()) as answers
                ):
                    load = asyncio.run(honest(port, n_rows, seconds, given.rate, n_honest))
                found += answers
                p50, p99 = np.percentile(load.seconds, [50, 99]) * 1e3
                sizes = f"{before:.0f}", f"{memory(process.pid):.0f}"
                latencies = f"{p50:.1f}", f"{p99:.1f}", f"{1e3 * max(load.seconds):.0f}"
                share = 100 * (processor_seconds(process.pid) - taken) / seconds
                rows.append((title, *latencies, f"{share:.0f}", str(load.errors), *sizes))
            with urlopen(f"http://127.0.0.1:{port}/metrics") as metrics:
                text = metrics.read().decode()
        finally:
            process.terminate()
            process.wait()
    print(f"{machine()}, load average {load_before:.1f} before the run")
    header = (
        *("load", "p50, ms", "p99, ms", "longest, ms", "CPU of the service, %", "errors"),
        *("MB before", "MB after"),
    )
    title = f"tribit serve under attack, {name}, 1 worker, {n_honest} honest clients at {given.rate:g}/s"
    print_table(title, header, rows)
    answered = sorted(f"{kind} {status or 'closed'}: {n}" for (kind, status), n in found.items())
    print(f"\nAnswers to bad clients: {'; '.join(answered)}.")
    closed = re.findall(r'closed_total\{reason="([^"]+)"\} (\d+)', text)
    print(f"\nConnections closed: {'; '.join(f'{reason} {n}' for reason, n in closed)}.")
    failures = sum(map(int, re.findall(r'status="5\d\d"\} (\d+)', text)))
    print(f"\nAnswers with a status from 500 up: {failures}.")


if __name__ == "__main__":
    main()
