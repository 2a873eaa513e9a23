/// The program of ``NTLMServer`` in Python, which uses pyspnego for NTLM.
enum NTLMServerScript {
    /// The source. It listens on descriptor 3. Its argument is "origin" or "proxy".
    static let text = #"""
        import base64, http.client, http.server, itertools, os, select, socket, socketserver, sys, urllib.parse
        import spnego

        IS_PROXY = sys.argv[1] == "proxy"
        ASK, ANSWER, STATUS = (
            ("Proxy-Authenticate", "Proxy-Authorization", 407) if IS_PROXY else ("WWW-Authenticate", "Authorization", 401))
        numbers = itertools.count(1)


        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self):
                super().setup()
                self.number, self.count, self.user, self.context = next(numbers), 0, None, None

            def log_message(self, *arguments):
                pass

            def read_body(self):
                if self.headers.get("Expect", "").lower() == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                    body = b""
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    while self.rfile.readline().strip():
                        pass
                    return body
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def answer(self, status, body=b"", fields=()):
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("X-Connection", str(self.number))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def authenticate(self):
                # Whether the connection is a user's; otherwise the next message of three has been sent.
                if self.user:
                    return True
                message = ""
                scheme, _, token = self.headers.get(ANSWER, "").partition(" ")
                if scheme == "NTLM":
                    try:
                        token = base64.b64decode(token, validate=True)
                        # The first message of three begins anew.
                        if self.context is None or token[8:9] == b"\1":
                            self.context = spnego.server(protocol="ntlm")
                        reply = self.context.step(token)
                        if self.context.complete:
                            self.user = self.context.client_principal.split("\\")[-1]
                            return True
                        message = " " + base64.b64encode(reply).decode()
                    except Exception as error:
                        print(repr(error), flush=True)
                        self.context = None
                self.answer(STATUS, b"who is it?", [(ASK, "NTLM" + message)])
                return False

            def handle_request(self):
                self.count += 1
                if self.command == "CONNECT":
                    if self.authenticate():
                        self.tunnel()
                    return
                body = self.read_body()
                if not self.authenticate():
                    return
                if IS_PROXY:
                    self.forward(body)
                else:
                    text = f"{self.command} {self.path} by {self.user} with {len(body)} bytes"
                    self.answer(200, text.encode(), [("Content-Type", "text/plain")])

            def forward(self, body):
                target = urllib.parse.urlsplit(self.path)
                fields = {
                    name: value for name, value in self.headers.items()
                    if not name.lower().startswith("proxy-") and name.lower() not in ("transfer-encoding", "content-length")}
                try:
                    connection = http.client.HTTPConnection(target.netloc, timeout=30)
                    path = urllib.parse.urlunsplit(("", "", target.path or "/", target.query, ""))
                    connection.request(self.command, path, body or None, fields)
                    response = connection.getresponse()
                    content = response.read()
                    ignored = ("connection", "keep-alive", "transfer-encoding", "content-length")
                    self.answer(
                        response.status, content, [(n, v) for n, v in response.getheaders() if n.lower() not in ignored])
                    connection.close()
                except OSError as error:
                    self.answer(502, repr(error).encode())

            def tunnel(self):
                host, _, port = self.path.rpartition(":")
                try:
                    other = socket.create_connection((host.strip("[]"), int(port)), timeout=30)
                except OSError as error:
                    self.answer(502, repr(error).encode())
                    return
                self.send_response(200, "Connection established")
                self.end_headers()
                self.close_connection = True
                pairs = {self.connection: other, other: self.connection}
                with other:
                    while True:
                        for source in select.select(list(pairs), [], [])[0]:
                            data = source.recv(65536)
                            if not data:
                                return
                            pairs[source].sendall(data)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_CONNECT = handle_request


        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True


        server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = socket.socket(fileno=3)
        server.server_name, server.server_port = server.socket.getsockname()
        server.serve_forever()

        """#
}
