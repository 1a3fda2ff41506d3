"""Attacks on connections: headers without end, silence, too many at once; an honest client beside is answered."""

import asyncio
import contextlib
import socket

import pytest

from service_parts import read_answer, running
from tribit.serve import connections
from tribit.serve.connections import MAX_PIPELINED, Connections, network_of
from tribit.serve.settings import ServiceSettings

START = b"GET /recommend?row=r3 HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = (
    b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
)
LINE = b"X-More: " + b"x" * 990 + b"\r\n"
PARSERS = [connections.H11Connection, connections.HttpToolsConnection]


@pytest.fixture(params=PARSERS, ids=["h11", "httptools"])
def parser(request):
    return request.param


def scenario(path, parser, play, **settings):
    """Run a play against a service, whose honest clients must always be answered."""

    async def run():
        async with running(path, parser, **settings) as service:
            return await asyncio.wait_for(play(service), 30)

    return asyncio.run(run())


async def send_until_closed(writer, part, n):
    """Send a part n times, and return the number of times until the connection was closed."""
    for number in range(n):
        try:
            writer.write(part)
            await writer.drain()
        except OSError:
            return number
        await asyncio.sleep(0)
    return n


async def statuses_until_closed(reader):
    """Return the statuses of all answers until the connection is closed."""
    found = []
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            found.append((await read_answer(reader))[0])
    return found


@pytest.mark.parametrize("before", [START, CHUNKED], ids=["headers", "trailers"])
def test_headers_without_end(recommenders, parser, before):
    async def play(service):
        reader, writer = await service.connect()
        writer.write(before)
        sent, honest = await asyncio.gather(
            send_until_closed(writer, LINE, 100_000), service.ask(20)
        )
        assert honest == [200] * 20
        assert sent < 20_000  # what fills the buffers of the system between both
        assert set(await statuses_until_closed(reader)) <= {400, 431}
        assert service.closed("large headers") + service.closed("no HTTP") == 1
        writer.close()

    scenario(recommenders[0], parser, play)


@pytest.mark.parametrize("size", [2**16 - 2000, 2**16 + 2000])
def test_headers_below_and_above_the_limit(recommenders, parser, size):
    async def play(service):
        reader, writer = await service.connect()
        writer.write(START + b"X-Long: " + b"x" * (size - len(START)) + b"\r\n\r\n")
        return (await read_answer(reader))[0]

    status = scenario(recommenders[0], parser, play)
    assert status in ({200} if size < 2**16 else {400, 431})


def test_headers_of_half_a_megabyte_at_once(recommenders, parser):
    async def play(service):
        reader, writer = await service.connect()
        writer.write(START + LINE * 500 + b"\r\n")
        assert set(await statuses_until_closed(reader)) <= {400, 431}
        assert await service.ask(1) == [200]

    scenario(recommenders[0], parser, play)


@pytest.mark.parametrize("first", [b"", b"GET / HT", START])
def test_silent_and_half_open_connections_are_closed(recommenders, parser, first):
    async def play(service):
        silent = [await service.connect() for _ in range(10)]
        for _, writer in silent:
            writer.write(first)
        # An honest connection stays open for longer than headers may take.
        honest, *found = await asyncio.gather(
            service.ask(6, pause=0.1), *(statuses_until_closed(reader) for reader, _ in silent)
        )
        assert honest == [200] * 6
        assert found == [[408]] * 10
        assert service.closed("headers too late") == 10
        assert len(service.service.connections) <= 1

    scenario(recommenders[0], parser, play, header_seconds=0.3)


def test_headers_byte_by_byte_are_closed_on_a_used_connection_too(recommenders, parser):
    async def play(service):
        reader, writer = await service.connect()
        writer.write(START + b"\r\n")
        assert (await read_answer(reader))[0] == 200

        async def drip():
            for _ in range(50):
                writer.write(b"G")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        writer.write(b"GET /")
        found = await statuses_until_closed(reader)
        dripping.cancel()
        assert set(found) <= {400, 408}
        assert service.closed("headers too late") + service.closed("no HTTP") == 1

    scenario(recommenders[0], parser, play, header_seconds=0.2)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_silent_connections_deny_no_service(recommenders, parser, source):
    """More connections than one address may have, and clients of this address and of another."""

    async def play(service):
        silent = [await service.connect("127.0.0.2") for _ in range(60)]
        for turn in range(10):
            silent += [await service.connect("127.0.0.2")]
            assert await service.ask(2, source) == [200] * 2, turn
        assert len(service.service.connections) <= 21
        assert service.closed("crowded out") >= 50
        for _, writer in silent:
            writer.close()

    scenario(recommenders[0], parser, play, max_per_address=20)


def test_silent_connections_of_many_addresses_deny_no_service(recommenders):
    async def play(service):
        silent = [await service.connect(f"127.0.1.{n}") for n in range(1, 61)]
        assert await service.ask(5) == [200] * 5
        assert len(service.service.connections) <= 20
        for _, writer in silent:
            writer.close()

    scenario(recommenders[0], connections.protocol, play, max_connections=20)


def test_slow_bodies_deny_no_service(recommenders, parser):
    async def play(service):
        slow = [await service.connect() for _ in range(30)]
        for _, writer in slow:
            writer.write(CHUNKED.replace(b"0\r\n", b"5\r\n[1,2,"))
        await asyncio.sleep(0.1)
        assert await service.ask(5) == [200] * 5
        for _, writer in slow:
            writer.close()

    scenario(recommenders[0], parser, play, max_per_address=10)


def test_connections_that_wait_for_the_service_are_not_closed(recommenders, parser, monkeypatch):
    """Requests in work fill the address: a further client gets a 503, and they get their answers."""

    async def play(service):
        working, wake = [], asyncio.Event()

        async def late(function, *args):
            await wake.wait()
            return function(*args)

        monkeypatch.setattr(service.service.threads, "run", late)
        for _ in range(4):
            reader, writer = await service.connect()
            writer.write(START.replace(b"row=r3", b"row=r3&level=0.5") + b"\r\n")
            working.append((reader, writer))
        await asyncio.sleep(0.1)
        reader, writer = await service.connect()
        status, body = await read_answer(reader)
        assert (status, b"too many connections" in body) == (503, True)
        assert await service.ask(1, "127.0.0.2") == [200]
        wake.set()
        assert [(await read_answer(reader))[0] for reader, _ in working] == [200] * 4
        for _, writer in working:
            writer.close()
        await asyncio.sleep(0.1)
        assert await service.ask(1) == [200]

    scenario(recommenders[0], parser, play, max_per_address=4)


def test_answers_that_are_not_read(recommenders, parser):
    """A client that asks and does not read is closed; its answers do not stay in memory."""

    async def play(service):
        unread = socket.socket()
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.connect(("127.0.0.1", service.port))
        unread.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            for _ in range(1500):
                await loop.sock_sendall(unread, b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(0)
        for _ in range(100):
            if service.closed("reads too slowly") or service.closed("too many"):
                break
            assert await service.ask(1) == [200]
            await asyncio.sleep(0.02)
        assert service.closed("reads too slowly") + service.closed("too many") == 1
        unread.close()

    scenario(recommenders[0], parser, play, answer_seconds=0.2)


def test_requests_that_wait_on_one_connection_are_limited(recommenders):
    async def play(service):
        reader, writer = await service.connect()
        writer.write((START + b"\r\n") * 20 * MAX_PIPELINED)
        answered = await statuses_until_closed(reader)
        assert len(answered) <= MAX_PIPELINED + 2
        assert service.closed("too many") == 1
        reader, writer = await service.connect()
        writer.write((START + b"\r\n") * MAX_PIPELINED)
        assert [(await read_answer(reader))[0] for _ in range(MAX_PIPELINED)] == [
            200
        ] * MAX_PIPELINED

    scenario(recommenders[0], connections.HttpToolsConnection, play)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        CHUNKED[:-3] + b"zz\r\n",
    ],
)
def test_no_http_is_an_error_and_no_traceback(recommenders, parser, request_, caplog):
    async def play(service):
        reader, writer = await service.connect()
        writer.write(request_)
        writer.write_eof()
        found = await statuses_until_closed(reader)
        assert set(found) <= {400, 404, 405, 415, 421, 422}
        assert await service.ask(1) == [200]

    scenario(recommenders[0], parser, play)
    assert "Traceback" not in caplog.text


class Stub:
    """A connection for the registry alone."""

    def __init__(self, host):
        self.client, self.aborted = (host, 1), False
        self.transport = self

    def abort(self):
        self.aborted = True


def test_the_connection_that_has_waited_longest_makes_room():
    reasons = []
    settings = ServiceSettings("x", max_connections=4, max_per_address=2)
    known = Connections(settings, reasons.append)
    a, b, c, d, e, f = map(
        Stub, ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.1"]
    )
    assert all(map(known.admit, (a, b, c, d)))
    known.set_waiting(a, False)
    assert known.admit(e)  # the worker is full: b has waited longest
    assert [each.aborted for each in (a, b, c, d, e)] == [False, True, False, False, False]
    known.remove(b)  # as when the connection is lost
    known.set_waiting(c, False)
    known.set_waiting(c, True)  # waits again, after d and e
    assert known.admit(f)
    assert (c.aborted, d.aborted) == (False, True)
    assert len(known) == 4
    known.set_waiting(f, False)
    assert not known.admit(Stub("10.0.0.1"))  # its address is full of requests in work
    assert reasons == ["crowded out"] * 2
    for each in (a, c, e, f):
        known.remove(each)
    assert len(known) == 0
    assert known.admit(Stub("10.0.0.1"))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_networks_of_clients(host, expected):
    assert network_of((host, 5)) == expected
    assert network_of(None) == ""
