"""One client's connection: uvicorn's HTTP/1.1 protocol, hardened against slow and malicious clients.

1. The head of a request is bounded in bytes and lines, and so is the time in which a whole request must
   arrive, however it trickles in. Headers after the body (trailers) are bounded as well, and dropped.
2. Whatever is refused here is refused in JSON, like everywhere else.
3. A stream learns at once that its client is gone, without a task of its own to wait for that.
4. `POST /`, nearly all of the traffic, takes a short way: its body is collected here and its answer leaves in
   one write, without the ASGI messages in between. What is asked of uvicorn for that is its notion of a
   cycle, which `Exchange` stands in for.
5. While a client has not read its answer, its next request waits; who does not read at all is dropped.
6. A client may send a few requests without waiting for their answers (`pipelined_max`). While such requests
   wait, nothing more is read or parsed. Answers leave in the order of the requests, refusals too.
7. The bytes of all requests together are bounded, and so are those of all answers that wait to be read
   (`budgets.py`).
"""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import Answer, Headers, extension, refusal_body, refusal_headers
from holdfast.server.budgets import small_bytes
from holdfast.server.errors import BadHttp, HeadTooLarge, TooMany, TooSlow
from holdfast.server.exchange import (
    Exchange,
    Flow,
    ServerLimits,
    chunk_bytes_min,
    chunks_max,
    end_of_heads,
    head_bytes,
    head_end,
    head_of,
    notice_dead_peers,
    pipelined_max,
)
from holdfast.server.rpc import PendingAnswer

read_bytes_min: Final = 65_536  # in write_timeout_s, while more than that waits for a client
header_lines_max: Final = 100


class ServerConnection(HttpToolsProtocol):
    limits: ServerLimits  # set on a subclass made for one server

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_lost: Callable[[], None] | None = None
        self.is_lost = False
        self.in_hand_bytes = 0  # of messages that somebody has taken to write them here
        self._reading_since: float | None = None
        self._idle_since: float | None = None
        self._unread_since: float | None = None  # or since it has last read a fair amount
        self._unread_bytes = 0
        self._head_bytes = 0
        self._in_head = True
        self._in_request = True  # a connection that never says anything is slow, too
        self._request_bytes = 0  # of the request that is being read
        self._quiet_bytes = 0  # that came after its head and were no part of its body
        self._trailer_bytes = self._chunk_count = 0
        self._unparsed: list[bytes] = []  # what came behind requests that wait
        self._asgi_bytes: deque[int] = deque()  # of each request that takes the long way and is not answered
        self._asgi_cycles: deque[Any] = deque()  # those requests

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = self._flow = Flow(transport)
        self._reading_since = self.loop.time()
        self._peer: str = (self.client or ("",))[0]
        notice_dead_peers(transport)
        if len(self.connections) > self.limits.connections_max:
            self.refuse(TooMany(f"{self.limits.connections_max} connections are open, which is the limit"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)
        self._disconnect_cycles()
        self.pipeline.clear()
        self._unparsed.clear()
        self.limits.requests.forget(self)
        self.limits.answers.forget(self)
        self.limits.requests.end(sum(self._asgi_bytes))
        self._asgi_bytes.clear()
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    def data_received(self, data: bytes) -> None:
        if not self._unparsed and not self.pipeline and data.count(head_end) <= pipelined_max:
            self._parse(data)  # nearly always
        else:
            self._unparsed.append(data)
            self._parse_some()
        if self.pipeline:
            self._hold()

    def _parse_some(self) -> None:
        """Parse what has come, until there are requests that must wait."""
        data = b"".join(self._unparsed)
        self._unparsed.clear()
        start = 0
        while start < len(data) and not self.pipeline and not self.transport.is_closing():
            end = end_of_heads(data, start)
            self._parse(data[start:end])
            start = end
        if start < len(data) and not self.transport.is_closing():
            self._unparsed.append(data[start:])

    def _hold(self) -> None:
        """Read nothing more until the requests that wait are answered. That takes no time of the client's."""
        self._flow.pause_reading()
        self._flow.is_held = True
        self._reading_since = None
        held = sum(map(len, self._unparsed)) + sum(len(cast("Any", cycle).body) for cycle, _ in self.pipeline)
        self.limits.requests.note_read(self, held)

    def _go_on(self) -> None:
        """Read on, unless there are requests that wait."""
        if self._unparsed and not self.pipeline:
            self._parse_some()
        if self.pipeline:
            self._hold()
            return
        if self._flow.is_held:
            self._flow.is_held = False
            self.limits.requests.forget(self)
            self._reading_since = self.loop.time() if self._in_request else None
        if self._flow.read_paused:
            self._flow.resume_reading()

    def _parse(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._quiet_bytes += len(data)
        self._request_bytes += len(data)
        super().data_received(data)
        if not self._in_request:
            self._reading_since = None
            return
        if self._reading_since is None:
            self._reading_since = self.loop.time()
        bytes_max = self.limits.header_bytes_max
        if (self._head_bytes if self._in_head else self._quiet_bytes) > bytes_max:
            self.refuse(self._head_too_large())
        elif not self.transport.is_closing():
            self.limits.requests.note_read(self, self._request_bytes)

    def check_pace(self, now: float) -> None:
        """Called every now and then: drop who takes too long over one request, is idle, or does not read."""
        since = self._reading_since
        if since is not None and now - since > self.limits.read_timeout_s:
            self._reading_since = None
            self.refuse(TooSlow(f"The request was not complete after {self.limits.read_timeout_s:g} s"))
        idle = self._idle_since
        if idle is not None and now - idle > self.limits.idle_timeout_s:
            self.transport.close()
        unread = self._unread_since
        if unread is not None:
            self._check_reader(unread, now)

    def _check_reader(self, since: float, now: float) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        if self._unread_bytes - unread_bytes >= read_bytes_min:
            self._unread_since, self._unread_bytes = now, unread_bytes
            self.limits.answers.note_progress(self, self.unread_bytes)
        elif now - since > self.limits.write_timeout_s:
            self.limits.on_slow_reader()
            self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since, self._unread_bytes = self.loop.time(), self.transport.get_write_buffer_size()
        self.limits.answers.note_unread(self, self.unread_bytes)
        self.loop.call_soon(self.limits.answers.make_room, 0)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None
        self.limits.answers.forget(self)

    @property
    def unread_bytes(self) -> int:
        return int(self.transport.get_write_buffer_size()) + self.in_hand_bytes

    @property
    def is_behind(self) -> bool:
        """The client has much to read. `until_read` waits for it."""
        return bool(self.flow.write_paused)

    async def until_read(self) -> None:
        await self.flow.drain()

    def refuse(self, refusal: Refusal) -> None:
        """Answer without asking the app, and hang up."""
        if self.transport.is_closing():
            return
        self.limits.on_refusal(refusal)
        if self._is_next_to_be_answered():
            self._write(refusal.status, refusal_body(refusal), refusal_headers(refusal))
        self.transport.close()
        self._let_go()

    def _is_next_to_be_answered(self) -> bool:
        """The request that is being read, that is: or a refusal of it would be taken for another answer."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return True
        is_its_own = self._in_request and not self._in_head
        return is_its_own and not self.pipeline and not cycle.response_started

    def _let_go(self) -> None:
        """Of what came of requests that will not be answered."""
        self._unparsed.clear()
        self._disconnect_cycles()
        waiting: list[Any] = [self.cycle, *(cycle for cycle, _ in self.pipeline)]
        for cycle in waiting:
            if cycle.__class__ is Exchange:
                cycle.body, cycle.asked = b"", True
        self.pipeline.clear()

    def abort(self) -> None:
        """Hang up without waiting for the client to read what was written."""
        self._disconnect_cycles()
        self.transport.abort()

    def _disconnect_cycles(self) -> None:
        """Or uvicorn would write to what is closed, and wonder about an answer without an end."""
        for cycle in self._asgi_cycles:
            cycle.disconnected = True
        self._asgi_cycles.clear()

    # --- what the parser calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._idle_since = None  # only now: an empty line is not yet a request
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._in_request = True
        self._trailer_bytes = self._chunk_count = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer, which counts for nothing
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > self.limits.header_bytes_max:
                self._stop_parsing()
            return
        name = name.lower()  # all that uvicorn does with it, three times a request
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > header_lines_max:
            self._stop_parsing()

    def _stop_parsing(self) -> None:
        self.refuse(self._head_too_large())
        raise ValueError("too large")  # makes the parser stop

    def on_headers_complete(self) -> None:
        self._in_head = False
        bytes_max = self.limits.header_bytes_max
        if self._head_bytes > bytes_max and head_bytes(self.url, self.headers) > bytes_max:
            self._stop_parsing()
        self._quiet_bytes = 0
        parser: Any = self.parser
        if (
            self.url == b"/"
            and parser.get_method() == b"POST"
            and not self.expect_100_continue
            and not parser.should_upgrade()
        ):
            before: Any = self.cycle
            is_next = before is None or before.response_complete
            exchange: Any = Exchange(self.headers, parser.should_keep_alive(), is_next)
            self.cycle = exchange
            if not is_next:
                self.pipeline.appendleft((exchange, cast("Any", None)))
        else:
            self._take_the_long_way()

    def _take_the_long_way(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        scope = cast("dict[str, Any]", self.scope)
        scope["headers"] = headers
        scope["extensions"] = {extension: self}
        super().on_headers_complete()
        while self._asgi_cycles and self._asgi_cycles[0].response_complete:
            self._asgi_cycles.popleft()
        self._asgi_cycles.append(cast("Any", self.cycle))

    def on_chunk_header(self) -> None:
        """To parse a chunk takes time, however little is in it."""
        self._chunk_count += 1
        if self._chunk_count > chunks_max + self._request_bytes // chunk_bytes_min:
            self.refuse(BadHttp("The body comes in too many small chunks"))
            raise ValueError  # makes the parser stop

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        exchange: Any = self.cycle
        if exchange.__class__ is not Exchange:
            super().on_body(body)
        elif not exchange.asked:
            if not exchange.body:
                exchange.body = body
            else:
                if exchange.body.__class__ is bytes:
                    exchange.body = bytearray(exchange.body)
                exchange.body += body
            if len(exchange.body) > self.limits.body_bytes_max:
                exchange.is_complete = True
                if exchange.is_next:
                    self._answer(exchange)  # says that it is too large, and hangs up

    def on_message_complete(self) -> None:
        self._in_request = False
        self._in_head = True
        self._head_bytes = 0
        self.limits.requests.forget(self)
        exchange: Any = self.cycle
        if exchange.__class__ is not Exchange:
            if not exchange.response_complete:
                self._begin_asgi_request()
            super().on_message_complete()
        elif not exchange.asked:
            exchange.is_complete = True
            if exchange.is_next:
                self._answer(exchange)
        self._request_bytes = 0

    def _begin_asgi_request(self) -> None:
        if self.limits.requests.begin(self._request_bytes):
            self._asgi_bytes.append(self._request_bytes)
        else:
            self.refuse(self.limits.requests.refusal())
            raise ValueError("too many bytes")  # makes the parser stop: the app never sees the end of it

    def _answer(self, exchange: Exchange) -> None:
        exchange.asked = True
        count = len(exchange.body)
        if count <= small_bytes:
            asked = self.limits.ask(exchange.headers, bytes(exchange.body))
            if asked is not None:
                exchange.body = b""
                self.limits.requests.begin(count)  # small ones always may
                asked.replies.add_done_callback(partial(self._replied, exchange, asked, count))
                return
        self._spawn(self._write_answer(exchange))

    def _replied(self, exchange: Exchange, asked: PendingAnswer, count: int, _: object) -> None:
        """What took the short way: the node has replied."""
        self.limits.requests.end(count)
        status, answer, headers = self.limits.finish(asked)
        if self.transport.is_closing():
            return
        self._write(status, answer, headers)
        if self.flow.write_paused:
            self._spawn(self._complete_when_read(exchange, status))
        else:
            self._complete(exchange, status)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _write_answer(self, exchange: Exchange) -> None:
        status, answer, headers = await self._ask(exchange)
        if not self.transport.is_closing():
            self._write(status, answer, headers)
            del answer
            await self._complete_when_read(exchange, status)

    async def _complete_when_read(self, exchange: Exchange, status: int) -> None:
        if self.flow.write_paused:
            await self.flow.drain()  # until it has read most of it, or `check_pace` has lost patience
        self._complete(exchange, status)

    def _complete(self, exchange: Exchange, status: int) -> None:
        exchange.response_complete = True
        if not exchange.keep_alive or status == 413:
            self.transport.close()
        self._response_complete()

    async def _ask(self, exchange: Exchange) -> Answer:
        body, exchange.body = bytes(exchange.body), b""
        count = len(body)
        if not self.limits.requests.begin(count):
            refusal = self.limits.requests.refusal()
            self.limits.on_refusal(refusal)
            return refusal.status, refusal_body(refusal), refusal_headers(refusal)
        try:
            return await self.limits.answer(exchange.headers, body, self._peer)
        finally:
            self.limits.requests.end(count)

    def _write(self, status: int, body: bytes, headers: Headers) -> None:
        """A whole JSON answer: in one piece, unless that would copy a large one."""
        head = head_of(status, len(body), headers)
        if len(body) < read_bytes_min:
            self.transport.write(head + body)
        else:
            self.limits.answers.make_room(len(body))
            self.transport.writelines((head, body))

    def on_response_complete(self) -> None:
        """Called by uvicorn, for requests that took the long way."""
        if self._asgi_bytes:
            self.limits.requests.end(self._asgi_bytes.popleft())
        self._response_complete()

    def _response_complete(self) -> None:
        """uvicorn would set a timer per request; idle connections are found by `check_pace` instead."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._answer_next()
        self._go_on()
        if self.cycle.response_complete and not self._in_request:
            self._idle_since = self.loop.time()

    def _answer_next(self) -> None:
        cycle, app = self.pipeline.pop()
        exchange = cast("Any", cycle)
        if exchange.__class__ is not Exchange:
            self._start_asgi_task(cycle, app)
            return
        exchange.is_next = True
        if exchange.is_complete:
            self._answer(exchange)

    def send_400_response(self, msg: str) -> None:
        self.refuse(BadHttp("The request is not HTTP"))

    def _unsupported_upgrade_warning(self) -> None:
        pass  # an upgrade that is not offered is ignored, as HTTP asks for

    def _head_too_large(self) -> Refusal:
        return HeadTooLarge(f"The head of the request has more than {self.limits.header_bytes_max} bytes")


def check_pace(connections: Iterable[Any], now: float) -> None:
    for connection in [*connections]:
        if isinstance(connection, ServerConnection):
            connection.check_pace(now)
