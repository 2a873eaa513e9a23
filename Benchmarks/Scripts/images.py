#!/usr/bin/env python3
"""Compares thumbnails by Convoy's ImageDownloader and by a C program on libsoup 3 and gdk-pixbuf, from a local nginx.

    swift build -c release --package-path Benchmarks --product image-bench --traits Images
    Benchmarks/Scripts/images.py [--count 2000] [--width 1600] [--height 1200] [--size 128] [--jobs 8] [--rounds 3]

Needs nginx, a C compiler, libsoup-3.0-dev and libgdk-pixbuf-2.0-dev. Prints the median, lowest and highest time, CPU time and
peak resident memory of all rounds.
"""
import argparse
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

here = pathlib.Path(__file__).resolve().parent
DIFFERENT = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_nginx(folder, port):
    (folder / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
        events {{ worker_connections 1024; }}
        http {{ access_log off; sendfile on; keepalive_requests 1000000; types {{ image/jpeg jpg; }}
          client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
          uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
          server {{ listen 127.0.0.1:{port}; root {folder}/files; }} }}"""
    )
    process = subprocess.Popen(["nginx", "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"])
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/0.jpg").close()
            return process
        except OSError:
            time.sleep(0.05)
    process.terminate()
    raise SystemExit("nginx does not answer: " + (folder / "error.log").read_text())


def measure(command):
    """Returns the time and the CPU time, in seconds, and the peak resident memory, in MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed: {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in [("count", 2000), ("width", 1600), ("height", 1200), ("size", 128), ("jobs", 8), ("rounds", 3)]:
        options.add_argument("--" + name, type=int, default=value)
    options.add_argument("--program", default=here.parent / ".build/release/image-bench")
    options.add_argument("--without", nargs="*", default=[], help="subjects that are left out")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="convoy-images") as name:
        folder = pathlib.Path(name)
        files = folder / "files"
        files.mkdir()
        os.chmod(folder, 0o755)
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "libsoup-3.0", "gdk-pixbuf-2.0"], text=True)
        program = folder / "images"
        subprocess.check_call(["cc", "-O2", here / "images.c", "-o", program, *shlex.split(flags), "-Wno-unused"])
        subprocess.check_call([program, "make", files, str(min(DIFFERENT, given.count)), str(given.width), str(given.height)])
        for number in range(DIFFERENT, given.count):
            os.link(files / f"{number % DIFFERENT}.jpg", files / f"{number}.jpg")
        port = free_port()
        nginx = start_nginx(folder, port)
        arguments = [f"http://127.0.0.1:{port}", str(given.count), str(given.size), str(given.jobs)]
        subjects = {
            "Convoy": [given.program],
            "C, at size": [program, "scale"],
            "C, at size, all requests at once": [program, "eager"],
            "C, whole, then scaled": [program, "full"],
        }
        for subject in given.without:
            del subjects[subject]
        results = {subject: [] for subject in subjects}
        try:
            for _ in range(given.rounds):
                for subject, command in subjects.items():
                    results[subject].append(measure([*command, *arguments]))
        finally:
            nginx.terminate()
            nginx.wait()
        mean = sum((files / f"{n}.jpg").stat().st_size for n in range(min(DIFFERENT, given.count))) / min(DIFFERENT, given.count)
        print(f"{given.count} JPEGs of {given.width} x {given.height}, {mean / 1024:.0f} KB each, at most {given.size} pixels wide and high, {given.jobs} in flight")
        for subject, rounds in results.items():
            columns = [f"{statistics.median(c):.1f} ({min(c):.1f}–{max(c):.1f})" for c in zip(*rounds)]
            print(f"| {subject} | " + " | ".join(columns) + " |")


if __name__ == "__main__":
    main()
