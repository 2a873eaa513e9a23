#!/usr/bin/env python3
"""Compares `convoy get -i` with wget2 and aria2: a list of 50,000 URLs, from a local nginx.

    Benchmarks/Scripts/lists.py [CONVOY] [COUNT]

Prints the medians of three runs of each program, with eight parallel transfers: the time from the start of the program to the
first response of nginx, the files per second, the peak resident memory, and the memory per URL beyond that for a single URL.
The files are written to /dev/shm.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PORT = 18471


def nginx(folder):
    (folder / "www").mkdir()
    (folder / "www" / "file").write_bytes(b"x" * 1000)
    (folder / "nginx.conf").write_text(f"""
        worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/errors;
        events {{ worker_connections 512; }}
        http {{
            log_format times '$msec'; access_log {folder}/access times;
            client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
            uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000;
            server {{ listen 127.0.0.1:{PORT}; root {folder}/www; location / {{ try_files /file =404; }} }}
        }}""")
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    return process


def run(command, folder, count):
    output = folder / "out"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    log = folder / "access"
    os.truncate(log, 0)
    begun = time.time()
    process = subprocess.Popen(command, cwd=output, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.time() - begun
    process.returncode = status
    files = sum(1 for _ in os.scandir(output))
    if files < count:
        sys.exit(f"{command[0]} has left {files} files of {count}, status {status}")
    with open(log) as lines:
        first = float(lines.readline())
    return first - begun, count / seconds, usage.ru_maxrss * 1024


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / ".build/release/convoy")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    tool = os.path.abspath(tool)
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    # nginx's workers run as a different user.
    folder.chmod(0o755)
    server = nginx(folder)
    try:
        urls = [f"http://127.0.0.1:{PORT}/a/file-{number}.bin" for number in range(count)]
        (folder / "list").write_text("\n".join(urls) + "\n")
        (folder / "one").write_text(urls[0] + "\n")
        commands = {
            "convoy": [tool, "get", "-q", "-j", "8", "-i"],
            "wget2": ["wget2", "-q", "--max-threads=8", "-i"],
            "aria2": ["aria2c", "-q", "-j", "8", "-i"],
        }
        print(f"{count} URLs".ljust(14) + "first byte   files/s   memory   for each URL")
        for name, command in commands.items():
            if shutil.which(command[0]) is None:
                print(f"{name.ljust(14)}is not installed")
                continue
            runs = [run(command + [str(folder / "list")], folder, count) for _ in range(3)]
            base = run(command + [str(folder / "one")], folder, 1)[2]
            first, rate, memory = (statistics.median(values) for values in zip(*runs))
            print(f"{name.ljust(14)}{first * 1000:7.0f} ms {rate:9.0f} {memory / 1e6:6.1f} MB {(memory - base) / count:9.0f} B")
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
