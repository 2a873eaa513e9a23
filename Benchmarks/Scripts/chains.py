#!/usr/bin/env python3
"""Measures 1,000 chained and 1,000 parallel requests of a workflow, against a server on this machine.

    Benchmarks/Scripts/chains.py CONVOY [COUNT]

Each request of the chain takes its URL from the response before it. Beside `convoy run` it times Python's requests, with one
session or 16 threads, and curl with all URLs in one process, which takes no values from responses. The rounds alternate, so
that other load on the machine affects all alike. The server is nginx, which must be installed, as must requests.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import requests

from workflows import serve


def chain(url, count):
    """Follows the values of the responses with one session."""
    with requests.Session() as session:
        number = 1
        for _ in range(count):
            response = session.get(f"{url}/items/{number}", headers={"Authorization": "Bearer token-4711"})
            response.raise_for_status()
            number = response.json()["id"]


def parallel(url, count):
    """Sends the requests with 16 threads, each with a session of its own."""
    local = threading.local()

    def get(number):
        if not hasattr(local, "session"):
            local.session = requests.Session()
        response = local.session.get(f"{url}/items/{number}", headers={"Authorization": "Bearer token-4711"})
        response.raise_for_status()
        return response.json()["name"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(get, range(1, count + 1)))


def write(folder, url, count):
    head = f"baseURL: {url}\ndefaults: {{jobs: 16, headers: {{Authorization: Bearer token-4711}}}}\nrequests:\n"
    lines = ["  r1: {get: items/1, capture: {id: json:/id}}\n"]
    for number in range(2, count + 1):
        lines.append(f'  r{number}: {{get: "items/${{r{number - 1}.id}}", capture: {{id: json:/id}}}}\n')
    (folder / "chain.yaml").write_text(head + "".join(lines))
    numbers = ", ".join(str(number) for number in range(1, count + 1))
    (folder / "parallel.yaml").write_text(
        head + f'  each: {{forEach: [{numbers}], get: "items/${{item}}", expect: ["json.id == item"]}}\n')
    (folder / "curl").write_text(
        "".join(f'url = "{url}/items/{number}"\noutput = /dev/null\n' for number in range(1, count + 1)))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tool, count = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        server, url = serve(folder, count)
        write(folder, url, count)

        def run(*words):
            subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

        curl = ["curl", "-sf", "-H", "Authorization: Bearer token-4711", "-K", "curl"]
        kinds = {
            "chained": {
                "convoy run": lambda: run(tool, "run", "-q", "chain.yaml"), "Python requests": lambda: chain(url, count),
                "curl, without values": lambda: run(*curl),
            },
            "parallel": {
                "convoy run": lambda: run(tool, "run", "-q", "parallel.yaml"), "Python requests": lambda: parallel(url, count),
                "curl, without values": lambda: run(*curl, "--parallel", "--parallel-max", "16"),
            },
        }
        try:
            for kind, ways in kinds.items():
                seconds, processor = {way: [] for way in ways}, {way: [] for way in ways}
                for _ in range(7):
                    for way, send in ways.items():
                        begun, used = time.monotonic(), sum(os.times()[:4])
                        send()
                        seconds[way].append(time.monotonic() - begun)
                        processor[way].append(sum(os.times()[:4]) - used)
                for way in ways:
                    ratios = [min(times[way]) / min(times["convoy run"]) for times in (seconds, processor)]
                    print(
                        f"{count} {kind}, {way:22} {min(seconds[way]):6.2f} s, {ratios[0]:5.2f} of convoy's; "
                        f"{min(processor[way]):6.2f} s of a processor, {ratios[1]:5.2f} of convoy's")
        finally:
            server.terminate()
            server.wait()


main()
