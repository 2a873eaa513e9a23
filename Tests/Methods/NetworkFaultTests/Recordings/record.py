#!/usr/bin/env python3
"""Makes http1.json and http2.json anew: responses of real servers, byte for byte, which the tests replay with faults.

    ~/.cache/convoy/httpbin/bin/python Tests/Methods/NetworkFaultTests/Recordings/record.py

Needs nginx, apache2, lighttpd, node and openssl on the PATH, and a Python with httpbin, gunicorn and brotlicffi, such as the
virtual environment that Tests/run makes. The servers listen on free ports of 127.0.0.1 and end with this program.

http1.json has the bytes of each response as lines of text, one character for each byte; http2.json has the frames that the
server sent on a connection for one request, in base64. The decoded form of an encoded body comes from Python's decoders.
"""
import base64, gzip, json, os, pathlib, shutil, socket, ssl, subprocess, sys, tempfile, time, zlib

import brotlicffi

HERE = pathlib.Path(__file__).parent
PAGE = "".join(f"line {n}: the quick brown fox jumps over the lazy dog\n" for n in range(8)).encode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(500):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"{process.args[0]} does not listen")


NODE = r"""
const http = require('http'), http2 = require('http2'), fs = require('fs');
const [, , port, securePort, key, cert] = process.argv;
const page = 'event number one, of a stream\n';
function answer(request, response) {
  const isOld = request.httpVersionMajor === 1;
  switch (request.url) {
  case '/trailers':
    response.writeHead(200, isOld ? {'Content-Type': 'text/plain', 'Trailer': 'X-Checksum, X-Count'} : {'Content-Type': 'text/plain'});
    response.write('first part, ');
    setTimeout(() => {
      response.write('second part');
      response.addTrailers({'X-Checksum': '1a2b3c', 'X-Count': '2'});
      response.end();
    }, 20);
    break;
  case '/events':
    response.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store'});
    let n = 0;
    const timer = setInterval(() => {
      n += 1;
      response.write(`id: ${n}\nevent: tick\ndata: ${page}\n`);
      if (n === 4) { clearInterval(timer); response.end(); }
    }, 10);
    break;
  case '/large':
    const fields = {'Content-Length': '11'};
    for (let i = 0; i < 24; i++) fields['X-Large-' + i] = String.fromCharCode(97 + i).repeat(isOld ? 100 : 1100);
    response.writeHead(200, fields);
    response.end('large heads');
    break;
  case '/early':
    response.writeEarlyHints({'link': '</style.css>; rel=preload; as=style'});
    response.writeHead(200, {'Content-Length': '10', 'Content-Type': 'text/plain'});
    response.end('after 103\n');
    break;
  case '/old':
    response.shouldKeepAlive = false;
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, {'Content-Type': 'text/plain'});
    response.end('its end is the end of the connection\n');
    break;
  case '/cookies':
    response.writeHead(200, {'Set-Cookie': ['a=1; Path=/; HttpOnly', 'b="two, three"; Path=/', 'c=; Max-Age=0'], 'Content-Length': '7'});
    response.end('cookies');
    break;
  default:
    response.writeHead(404, {'Content-Length': '9'});
    response.end('not found');
  }
}
http.createServer(answer).listen(port, '127.0.0.1');
http2.createSecureServer({key: fs.readFileSync(key), cert: fs.readFileSync(cert)}, answer).listen(securePort, '127.0.0.1');
"""


class Servers:
    """All servers, in a directory of their own."""

    def __init__(self, root):
        self.root, self.processes = root, []
        files = root / "files"
        files.mkdir()
        for name in ["page.html", "page.txt"]:
            (files / name).write_bytes(PAGE)
            os.utime(files / name, (1_700_000_000, 1_700_000_000))
        (files / "empty.txt").write_bytes(b"")
        cgi = files / "cgi-bin"
        cgi.mkdir()
        (cgi / "page.py").write_text("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nprintf 'a page without a length\\n'\n")
        (cgi / "page.py").chmod(0o755)
        self.key, self.cert = root / "key.pem", root / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-keyout", self.key, "-out", self.cert], check=True, capture_output=True)
        self.ports = {name: free_port() for name in
                      ["nginx", "nginx-tls", "httpbin", "python", "cgi", "node", "node-tls", "apache", "apache-tls", "lighttpd"]}
        self.start_nginx()
        self.start_apache()
        self.start_others()

    def run(self, name, *arguments, **options):
        log = open(self.root / f"{name}.log", "w")
        process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)
        self.processes.append(process)
        wait_for(self.ports[name], process)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def start_nginx(self):
        temporary = "\n".join(
            f"{kind}_temp_path {self.root}/tmp-{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        locations = f"""
            root {self.root}/files;
            absolute_redirect off;
            location = /moved {{ return 301 /moved-again; }}
            location = /moved-again {{ return 302 /page.txt; }}
            location = /none {{ return 204; }}
            location = /refused {{ auth_basic "nginx"; auth_basic_user_file /dev/null; }}
            location /gzip/ {{ alias {self.root}/files/; gzip on; gzip_min_length 0; gzip_types *; gzip_http_version 1.0; }}
        """
        (self.root / "nginx.conf").write_text(f"""
            daemon off; master_process off; pid {self.root}/nginx.pid; error_log {self.root}/error.log;
            events {{}}
            http {{
                access_log off; {temporary}
                types {{ text/plain txt; text/html html; }}
                server {{ listen 127.0.0.1:{self.ports["nginx"]}; {locations} }}
                server {{
                    listen 127.0.0.1:{self.ports["nginx-tls"]} ssl http2;
                    ssl_certificate {self.cert}; ssl_certificate_key {self.key};
                    {locations}
                }}
            }}""")
        self.run("nginx", "nginx", "-p", self.root, "-e", self.root / "error.log", "-c", self.root / "nginx.conf")

    def start_apache(self):
        modules = "/usr/lib/apache2/modules"
        names = ["mpm_event", "authz_core", "mime", "dir", "http2", "ssl", "headers"]
        loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names)
        (self.root / "apache.conf").write_text(f"""
            {loads}
            ServerName localhost
            PidFile {self.root}/apache.pid
            ErrorLog {self.root}/apache-error.log
            Listen 127.0.0.1:{self.ports["apache"]}
            Listen 127.0.0.1:{self.ports["apache-tls"]}
            DocumentRoot {self.root}/files
            TypesConfig /etc/mime.types
            Protocols h2 http/1.1
            <VirtualHost 127.0.0.1:{self.ports["apache-tls"]}>
                SSLEngine on
                SSLCertificateFile {self.cert}
                SSLCertificateKeyFile {self.key}
            </VirtualHost>
            <Directory {self.root}/files>
                Require all granted
                Header set X-Served-By apache
            </Directory>""")
        self.run("apache", "apache2", "-X", "-d", self.root, "-f", self.root / "apache.conf")

    def start_others(self):
        files = self.root / "files"
        self.run("httpbin", sys.executable, "-m", "gunicorn", "--bind", f'127.0.0.1:{self.ports["httpbin"]}', "--workers", "1",
                 "--worker-class", "gthread", "--threads", "4", "httpbin:app")
        self.run("python", sys.executable, "-m", "http.server", str(self.ports["python"]), "--bind", "127.0.0.1", cwd=files)
        self.run("cgi", sys.executable, "-m", "http.server", "--cgi", str(self.ports["cgi"]), "--bind", "127.0.0.1", cwd=files)
        (self.root / "node.js").write_text(NODE)
        self.run("node", "node", self.root / "node.js", str(self.ports["node"]), str(self.ports["node-tls"]), self.key, self.cert)
        (self.root / "lighttpd.conf").write_text(f"""
            server.document-root = "{files}"
            server.bind = "127.0.0.1"
            server.port = {self.ports["lighttpd"]}
            mimetype.assign = ( ".txt" => "text/plain", "" => "application/octet-stream" )
            """)
        self.run("lighttpd", "lighttpd", "-D", "-f", self.root / "lighttpd.conf")


# HTTP/1.1

def split_head(data):
    end = data.index(b"\r\n\r\n") + 4
    lines = data[:end].decode("latin-1").split("\r\n")
    fields = [line.split(":", 1) for line in lines[1:] if ":" in line]
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, value in fields}, data[end:]


def whole(data, method, at_end):
    """The body without its framing once all of it is there, or None."""
    while True:
        if b"\r\n\r\n" not in data:
            return None
        status, fields, rest = split_head(data)
        if status >= 200:
            break
        data = rest
    if method == "HEAD" or status in (204, 304):
        return b""
    if "transfer-encoding" in fields:
        body = b""
        while b"\r\n" in rest:
            size, rest = rest.split(b"\r\n", 1)
            count = int(size.split(b";")[0], 16)
            if count == 0:
                return body if rest.startswith(b"\r\n") or b"\r\n\r\n" in rest else None
            if len(rest) < count + 2:
                return None
            body, rest = body + rest[:count], rest[count + 2:]
        return None
    if "content-length" in fields:
        length = int(fields["content-length"])
        return rest[:length] if len(rest) >= length else None
    return rest if at_end else None


def last_fields(data):
    while True:
        status, fields, rest = split_head(data)
        if status >= 200:
            return status, fields
        data = rest


def exchange(port, method, target, fields, body):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"] + [f"{n}: {v}" for n, v in fields.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    data, at_end = b"", False
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))
        while whole(data, method, at_end) is None:
            piece = s.recv(65536)
            at_end = not piece
            data += piece
    return data, whole(data, method, at_end)


def decoded(coding, body):
    if not body or coding in (None, "identity"):
        return None
    plain = {"gzip": gzip.decompress, "br": brotlicffi.decompress, "deflate": zlib.decompress}[coding](body)
    return plain.decode()


def record_http1(ports):
    modified = "Tue, 14 Nov 2023 22:13:20 GMT"
    list_of = [
        ("a file", "nginx", [("GET", "/page.txt", {}, None)]),
        ("gzip in chunks", "nginx", [("GET", "/gzip/page.html", {"Accept-Encoding": "gzip"}, None)]),
        ("no content", "nginx", [("GET", "/none", {}, None)]),
        ("not modified", "nginx", [("GET", "/page.txt", {"If-Modified-Since": modified}, None)]),
        ("a range", "nginx", [("GET", "/page.txt", {"Range": "bytes=100-149"}, None)]),
        ("two ranges", "nginx", [("GET", "/page.txt", {"Range": "bytes=0-9,100-109"}, None)]),
        ("a range that is not there", "nginx", [("GET", "/page.txt", {"Range": "bytes=99999-"}, None)]),
        ("the head alone", "nginx", [("HEAD", "/page.txt", {}, None)]),
        ("an empty file", "nginx", [("GET", "/empty.txt", {}, None)]),
        ("two redirects", "nginx", [(("GET"), path, {}, None) for path in ["/moved", "/moved-again", "/page.txt"]]),
        ("three redirects", "httpbin", [("GET", path, {}, None) for path in
                                        ["/relative-redirect/3", "/relative-redirect/2", "/relative-redirect/1", "/get"]]),
        ("a refusal with a challenge", "httpbin", [("GET", "/basic-auth/ada/secret", {}, None)]),
        ("brotli", "httpbin", [("GET", "/brotli", {"Accept-Encoding": "br"}, None)]),
        ("deflate", "httpbin", [("GET", "/deflate", {"Accept-Encoding": "deflate"}, None)]),
        ("chunks of JSON", "httpbin", [("GET", "/stream/2", {}, None)]),
        ("a POST", "httpbin", [("POST", "/post", {"Content-Type": "text/plain"}, b"posted")]),
        ("100 before the response to a POST", "httpbin", [("POST", "/post", {"Content-Type": "text/plain", "Expect": "100-continue"}, b"posted")]),
        ("HTTP/1.0 with a length", "python", [("GET", "/page.txt", {}, None)]),
        ("HTTP/1.0 that the end of the connection ends", "cgi", [("GET", "/cgi-bin/page.py", {}, None)]),
        ("a file with an entity tag", "apache", [("GET", "/page.txt", {}, None)]),
        ("the end of a file", "lighttpd", [("GET", "/page.txt", {"Range": "bytes=-60"}, None)]),
        ("chunks with trailers", "node", [("GET", "/trailers", {}, None)]),
        ("an event stream", "node", [("GET", "/events", {"Accept": "text/event-stream"}, None)]),
        ("a large head", "node", [("GET", "/large", {}, None)]),
        ("103 before the response", "node", [("GET", "/early", {}, None)]),
        ("HTTP/1.1 that the end of the connection ends", "node", [("GET", "/old", {}, None)]),
        ("cookies", "node", [("GET", "/cookies", {}, None)]),
    ]
    recordings = []
    for name, server, steps in list_of:
        exchanges, software = [], None
        for method, target, fields, body in steps:
            data, raw = exchange(ports[server], method, target, fields, body)
            status, answered = last_fields(data)
            software = software or answered.get("server") or {"node": "node"}.get(server, server)
            lines = data.decode("latin-1").split("\n")
            lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
            entry = {"method": method, "target": target, "fields": fields, "response": lines}
            if body is not None:
                entry["body"] = body.decode()
            if (plain := decoded(answered.get("content-encoding"), raw)) is not None:
                entry["decoded"] = plain
            exchanges.append(entry)
        recordings.append({"name": name, "server": software, "exchanges": exchanges})
    return recordings


# HTTP/2

def literal(name, value):
    # A literal without indexing and without Huffman's code (RFC 7541, section 6.2.2), of lengths below 127.
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def exchange_http2(port, method, target, fields):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    frames, body, coding = [], b"", None
    head = b"".join(literal(n, v) for n, v in
                    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", target)]
                    + [(n.lower(), v) for n, v in fields.items()])
    with socket.create_connection(("127.0.0.1", port), 10) as plain, context.wrap_socket(plain, server_hostname="localhost") as s:
        settings = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in [(2, 0), (4, 1 << 20)])
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, settings) + frame(8, 0, 0, (1 << 24).to_bytes(4, "big"))
                  + frame(1, 5, 1, head))
        data, is_acknowledged, is_over = b"", False, False
        while not is_over:
            piece = s.recv(65536)
            if not piece:
                sys.exit(f"{target}: the connection has ended")
            data += piece
            while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
                one, data = data[:9 + int.from_bytes(data[:3], "big")], data[9 + int.from_bytes(data[:3], "big"):]
                kind, flags, stream = one[3], one[4], int.from_bytes(one[5:9], "big")
                frames.append(one)
                if kind == 4 and not flags & 1 and not is_acknowledged:
                    s.sendall(frame(4, 1, 0))
                    is_acknowledged = True
                if kind == 0:
                    body += one[9:]
                if stream == 1 and kind in (0, 1) and flags & 1:
                    is_over = True
    return frames, body


def record_http2(ports):
    modified = "Tue, 14 Nov 2023 22:13:20 GMT"
    list_of = [
        ("a file", "nginx", "GET", "/page.txt", {}),
        ("gzip without a length", "nginx", "GET", "/gzip/page.html", {"Accept-Encoding": "gzip"}),
        ("no content", "nginx", "GET", "/none", {}),
        ("not modified", "nginx", "GET", "/page.txt", {"If-Modified-Since": modified}),
        ("a range", "nginx", "GET", "/page.txt", {"Range": "bytes=100-149"}),
        ("the head alone", "nginx", "HEAD", "/page.txt", {}),
        ("a file with an entity tag", "apache", "GET", "/page.txt", {}),
        ("trailers", "node", "GET", "/trailers", {}),
        ("an event stream", "node", "GET", "/events", {"Accept": "text/event-stream"}),
        ("a head in several frames", "node", "GET", "/large", {}),
        ("103 before the response", "node", "GET", "/early", {}),
        ("cookies", "node", "GET", "/cookies", {}),
    ]
    recordings = []
    for name, server, method, target, fields in list_of:
        frames, body = exchange_http2(ports[server + "-tls"], method, target, fields)
        entry = {"name": name, "server": server, "method": method, "target": target, "fields": fields,
                 "frames": [base64.b64encode(one).decode() for one in frames]}
        if body[:2] == b"\x1f\x8b":
            entry["decoded"] = gzip.decompress(body).decode()
        recordings.append(entry)
    return recordings


def main():
    root = pathlib.Path(tempfile.mkdtemp(prefix="convoy-recordings"))
    os.chmod(root, 0o755)
    servers = None
    try:
        servers = Servers(root)
        for name, record in [("http1", record_http1), ("http2", record_http2)]:
            recordings = record(servers.ports)
            (HERE / f"{name}.json").write_text(json.dumps(recordings, indent=1, ensure_ascii=True) + "\n")
            print(f"{name}.json: {len(recordings)} recordings, {(HERE / f'{name}.json').stat().st_size} bytes")
    finally:
        if servers:
            servers.stop()
        shutil.rmtree(root)


main()
