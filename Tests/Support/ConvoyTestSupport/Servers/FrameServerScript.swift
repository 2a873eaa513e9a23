/// The program of ``FrameServer`` in Python, which uses h2 from PyPI for HTTP/2.
enum FrameServerScript {
    /// The source. It listens on the descriptors from 3 on. Its arguments are the port that specifies the responses,
    /// the file with certificate and key, and the number of descriptors.
    static let text = #"""
        import http.client, json, select, socket, ssl, struct, sys, threading, time
        import h2.config, h2.connection, h2.events, h2.exceptions

        MASTER, IDENTITY, COUNT = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
        NO_ERROR, REFUSED_STREAM = 0, 7
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(IDENTITY)
        context.set_alpn_protocols(["h2"])


        class Gone(Exception):
            pass


        class Connection:
            """One connection: a thread that reads, and one for each stream. All of h2 and TLS under one lock."""

            def __init__(self, plain):
                plain.settimeout(20)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.socket = context.wrap_socket(plain, server_side=True)
                self.changed = threading.Condition()
                self.gone, self.is_closed = set(), False
                self.held = []
                self.h2 = h2.connection.H2Connection(
                    h2.config.H2Configuration(
                        client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False))

            def flush(self):
                if data := self.h2.data_to_send():
                    self.socket.sendall(data)

            def close(self):
                with self.changed:
                    if not self.is_closed:
                        self.is_closed = True
                        try:
                            self.socket.shutdown(socket.SHUT_RDWR)
                        except OSError:
                            pass
                    self.changed.notify_all()

            def read(self):
                events = []
                self.socket.settimeout(0)
                try:
                    while True:
                        data = self.socket.recv(65536)
                        if not data:
                            raise Gone
                        events += self.h2.receive_data(data)
                except (ssl.SSLWantReadError, BlockingIOError):
                    return events
                finally:
                    self.socket.settimeout(20)

            def run(self):
                try:
                    with self.changed:
                        self.h2.initiate_connection()
                        self.flush()
                    while not self.is_closed:
                        select.select([self.socket], [], [], 5)
                        with self.changed:
                            for event in self.read():
                                if isinstance(event, h2.events.RequestReceived):
                                    answer = threading.Thread(
                                        target=self.answer, args=(event.stream_id, event.headers), daemon=True)
                                    answer.start()
                                elif isinstance(event, h2.events.StreamReset):
                                    self.gone.add(event.stream_id)
                            self.flush()
                            self.changed.notify_all()
                except (OSError, ValueError, Gone, h2.exceptions.H2Error):
                    pass
                self.close()
                self.socket.close()

            def answer(self, stream, headers):
                fields = {name.decode(): value.decode() for name, value in headers}
                try:
                    master = http.client.HTTPConnection("127.0.0.1", MASTER, timeout=20)
                    own = {name: value for name, value in fields.items() if not name.startswith(":")}
                    master.request(fields[":method"], fields[":path"], headers={**own, "X-Frames": "yes"})
                    response = master.getresponse()
                    body = response.read()
                    plan = json.loads(response.headers["X-Plan"])
                    master.close()
                    self.play(stream, plan, body)
                except (OSError, KeyError, Gone, http.client.HTTPException, h2.exceptions.H2Error) as error:
                    print("answer", repr(error), flush=True)

            def frame(self, kind, flags, stream, payload):
                # What h2 would not send.
                self.flush()
                self.socket.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

            def check(self, stream):
                if self.is_closed or stream in self.gone:
                    raise Gone

            def play(self, stream, plan, body):
                end, code = plan["end"], plan["code"]
                with self.changed:
                    self.check(stream)
                    if end == "refused":
                        self.h2.reset_stream(stream, REFUSED_STREAM)
                        return self.flush()
                    if end == "dropped":
                        return self.close()
                    if plan["interim"]:
                        self.h2.send_headers(stream, [(":status", "103"), ("etag", '"interim"'), ("content-range", "bytes 0-1/2")])
                    is_empty = not body and end == "whole" and not plan["trailers"]
                    self.h2.send_headers(stream, [(":status", str(plan["status"]))] + plan["fields"], end_stream=is_empty)
                    self.flush()
                    if is_empty:
                        return
                stop, sent = min(plan["stop"], len(body)), 0
                while sent < stop:
                    with self.changed:
                        while True:
                            self.check(stream)
                            room = min(
                                self.h2.local_flow_control_window(stream) - plan["padding"] - 1, plan["slice"], stop - sent,
                                self.h2.max_outbound_frame_size - plan["padding"] - 1)
                            if room > 0:
                                break
                            if not self.changed.wait(30):
                                raise Gone
                        self.h2.send_data(stream, body[sent:sent + room], pad_length=plan["padding"] or None)
                        self.flush()
                    sent += room
                    if plan["pause"] > 0:
                        time.sleep(plan["pause"])
                with self.changed:
                    self.check(stream)
                    if end == "reset":
                        self.h2.reset_stream(stream, code)
                    elif end == "goaway":
                        self.frame(7, 0, 0, struct.pack(">II", stream, code))
                        self.close()
                    elif end == "closed":
                        self.close()
                    elif end == "resetAndClosed":
                        # In one packet.
                        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                        self.h2.reset_stream(stream, code)
                        self.flush()
                        self.socket.settimeout(0)
                        try:
                            self.socket.unwrap()
                        except (ssl.SSLError, OSError):
                            pass
                        self.close()
                    elif end == "held":
                        self.held.append((stream, body[sent:]))
                        print("HELD", flush=True)
                    elif end == "floodOfHeld":
                        for other, rest in self.held:
                            if not rest:
                                self.h2.reset_stream(other, code)
                        for other, rest in self.held:
                            while rest:
                                self.h2.send_data(other, rest[:16384])
                                rest = rest[16384:]
                        self.h2.end_stream(stream)
                        self.flush()
                        print("FLOODED", flush=True)
                    else:
                        if plan["trailers"]:
                            self.h2.send_headers(stream, plan["trailers"], end_stream=True)
                        else:
                            self.h2.end_stream(stream)
                        if end == "resetAfterEnd":
                            self.frame(3, 0, stream, struct.pack(">I", NO_ERROR))
                        if end == "dataAfterEnd":
                            self.frame(0, 0, stream, b"after the end")
                        if end == "goAwayAfterEnd":
                            self.frame(7, 0, 0, struct.pack(">II", stream, code))
                    if not self.is_closed:
                        self.flush()


        def serve(plain):
            try:
                connection = Connection(plain)
            except OSError:
                return
            connection.run()


        def listen(descriptor):
            listener = socket.socket(fileno=descriptor)
            listener.setblocking(True)
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


        for descriptor in range(3, 3 + COUNT):
            threading.Thread(target=listen, args=(descriptor,), daemon=True).start()
        print("READY", flush=True)
        threading.Event().wait()
        """#
}
