#!/usr/bin/env python3
"""Measures 2,000 requests that take a value from a response, against a server on this machine.

    Benchmarks/Scripts/workflows.py CONVOY [COUNT]

One request logs in and gives a token, one gives the ids, and one for each id needs both. Beside `convoy run` it times a shell
loop over curl, `make -j 16` with a curl for each id, and `hurl` where it is installed. The server is nginx, which must be
installed.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def serve(folder, count):
    """Starts nginx with a login, a list and an item for each id."""
    root = folder / "root"
    (root / "items").mkdir(parents=True)
    (root / "list").write_text(json.dumps({"ids": list(range(1, count + 1))}))
    (root / "login").write_text(json.dumps({"token": "token-4711"}))
    for number in range(1, count + 1):
        (root / "items" / str(number)).write_text(json.dumps({"id": number, "name": f"item {number}"}))
    configuration = folder / "nginx.conf"
    configuration.write_text(f"""
        daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1;
        events {{ worker_connections 1024; }}
        http {{ access_log off; default_type application/json; keepalive_requests 100000;
        client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
        uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
        server {{ listen 127.0.0.1:18231; root {root};
        location /items/ {{ if ($http_authorization != "Bearer token-4711") {{ return 401; }} }} }} }}""")
    server = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(configuration)])
    time.sleep(1)
    return server, "http://127.0.0.1:18231"


def timed(name, command, folder):
    seconds = []
    for _ in range(3):
        begun = time.monotonic()
        run = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds.append(time.monotonic() - begun)
        if run.returncode != 0:
            sys.exit(f"{name}: {run.stderr[:500]}")
    print(f"{name:24} {min(seconds):8.2f} s, the best of {len(seconds)}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tool, count = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        server, url = serve(folder, count)
        try:
            (folder / "m.yaml").write_text(f"""baseURL: {url}
defaults: {{jobs: 16}}
secrets: [login.token]
requests:
  login: {{get: login, capture: {{token: "json:/token"}}}}
  list: {{get: list, bearer: "${{login.token}}", capture: {{ids: "json:/ids"}}}}
  item:
    forEach: ${{list.ids}}
    get: items/${{item}}
    bearer: ${{login.token}}
    expect: {{json: {{/id: "${{item}}"}}}}
    capture: {{name: "json:/name"}}
""".replace("  item:\n", "  each:\n"))
            timed("convoy run", [tool, "run", "-q", "m.yaml"], folder)
            token = f"token=$(curl -s {url}/login | sed 's/.*: \"//; s/\".*//')"
            ids = f"ids=$(curl -s {url}/list | tr -cd '0-9,' | tr ',' ' ')"
            one = f"curl -sf -H \"Authorization: Bearer $token\" {url}/items"
            timed("a loop over curl", ["bash", "-c", f"set -e; {token}; {ids}; for id in $ids; do {one}/$id | grep -q name; done"], folder)
            (folder / "Makefile").write_text(
                "all: $(addprefix item-,$(ids))\nitem-%:\n\t@curl -sf -H \"Authorization: Bearer $(token)\" "
                f"{url}/items/$* | grep -q name\n")
            timed("make -j 16 with curl", ["bash", "-c", f"set -e; {token}; {ids}; make -s -j 16 token=$token ids=\"$ids\""], folder)
            if shutil.which("hurl"):
                parts = [f"GET {url}/items/{number}\nAuthorization: Bearer token-4711\nHTTP 200\n[Captures]\nname: jsonpath \"$.name\"\n" for number in range(1, count + 1)]
                for number in range(16):
                    (folder / f"{number}.hurl").write_text("\n".join(parts[number::16]))
                timed("hurl --parallel", ["hurl", "--parallel", "--jobs", "16"] + [f"{number}.hurl" for number in range(16)], folder)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
