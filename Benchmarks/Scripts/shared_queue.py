#!/usr/bin/env python3
"""Measures the overhead of a shared queue on PostgreSQL and SQLite, with workers that send no requests.

    swift build -c release --product StoreProgram --traits Postgres
    Benchmarks/Scripts/shared_queue.py [--entries 40000] [--waiting 1000000] [--workers 4] [--batch 100]

Starts PostgreSQL in a separate directory, with fsync. Prints the entries per second in an otherwise empty queue and with many
other ready entries, and the statements whose plans contain a sequential scan.
"""
import argparse, os, pwd, re, shutil, socket, subprocess, sys, tempfile, time
from pathlib import Path

parser = argparse.ArgumentParser()
for name, value in [("entries", 40000), ("waiting", 1000000), ("workers", 4), ("batch", 100)]:
    parser.add_argument(f"--{name}", type=int, default=value)
options = parser.parse_args()
root = Path(__file__).resolve().parents[2]
program = root / ".build/release/StoreProgram"
if not program.exists():
    sys.exit(f"{program} is missing: swift build -c release --product StoreProgram --traits Postgres")
versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
if not versions:
    sys.exit("PostgreSQL is missing: apt-get install postgresql")
programs = versions[-1]

def demoted():
    """Gives up root, as which PostgreSQL does not run."""
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.setgroups([]); os.setgid(user.pw_gid); os.setuid(user.pw_uid)

folder = Path(tempfile.mkdtemp(prefix="convoy-bench-"))
data = folder / "data"
if os.geteuid() == 0:
    shutil.chown(folder, "postgres", "postgres")
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
subprocess.run([programs / "initdb", "--no-instructions", "-A", "trust", "-U", "convoy", "-E", "UTF8", "-D", data],
               preexec_fn=demoted, check=True, stdout=subprocess.DEVNULL)
(data / "postgresql.auto.conf").write_text(
    f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nshared_buffers = 256MB\nmax_wal_size = 4GB\n")
log = open(folder / "log", "w")
server = subprocess.Popen([programs / "postgres", "-D", data], preexec_fn=demoted, stdout=log, stderr=log)
address = f"postgresql://convoy@127.0.0.1:{port}/postgres"

def sql(text):
    run = subprocess.run([programs / "psql", "-X", "-A", "-t", "-c", text, address], check=True, capture_output=True, text=True)
    return run.stdout.strip()

def run(store, *arguments):
    return [str(program), "shared", store, *map(str, arguments)]

def drain(store):
    """Returns the entries per second of all workers."""
    share = options.entries // options.workers
    start = time.monotonic()
    workers = [subprocess.Popen(run(store, "empty", options.batch, share), stdout=subprocess.PIPE, text=True)
               for _ in range(options.workers)]
    counts = [int(worker.communicate()[0].split()[0]) for worker in workers]
    return sum(counts) / (time.monotonic() - start)

try:
    for _ in range(200):
        if subprocess.run([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode == 0:
            break
        time.sleep(0.05)
    for store in [address, str(folder / "queue.sqlite")]:
        name = "PostgreSQL" if store == address else "SQLite"
        if store != address:
            os.chmod(folder, 0o755)
            own = Path(tempfile.mkdtemp(prefix="convoy-bench-sqlite-"))
            store = str(own / "queue.sqlite")
        subprocess.run(run(store, "fill", options.entries), check=True)
        alone = drain(store)
        print(f"{name}: {alone:,.0f} entries/s claimed and reported by {options.workers} workers", flush=True)
        if store == address and options.waiting:
            subprocess.run(run(store, "fill", options.waiting), check=True)
            sql("VACUUM ANALYZE convoy.entry")
            many = drain(store)
            print(f"{name}: {many:,.0f} entries/s in front of {options.waiting:,} others, {many / alone:.2f} of it", flush=True)
            sql("ALTER SYSTEM SET session_preload_libraries = 'auto_explain'")
            sql("SELECT pg_reload_conf()")
            time.sleep(0.5)
            log.flush()
            before = (folder / "log").stat().st_size
            subprocess.run(run(store, "empty", options.batch, options.batch * 10), check=True, stdout=subprocess.DEVNULL,
                           env=os.environ | {"PGOPTIONS": "-c auto_explain.log_min_duration=0"})
            with open(folder / "log") as file:
                file.seek(before)
                plans = re.findall(r"duration: [\d.]+ ms  plan:\n(.*?)(?=\n\d{4}-|\Z)", file.read(), re.S)
            scans = [plan for plan in plans if re.search(r"Seq Scan on (entry|request|result|dependency)", plan)]
            print(f"{name}: {len(plans)} plans, {len(scans)} with a sequential scan of entries", flush=True)
            for plan in scans[:3]:
                print(plan)
    if shutil.which("nginx"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            http = probe.getsockname()[1]
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/nginx.pid; events {{ worker_connections 512; }}\n"
            f"http {{ access_log off; server {{ listen 127.0.0.1:{http}; keepalive_requests 1000000;"
            f" location / {{ return 200 hello; }} }} }}\n")
        web = subprocess.Popen(["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")])
        time.sleep(0.5)
        try:
            sql("TRUNCATE convoy.entry, convoy.request, convoy.result, convoy.dependency")
            url, count = f"http://127.0.0.1:{http}/", 5000
            results = {}
            for turn in range(3):
                for name, command in [
                    ("DownloadQueue", [str(program), "queue", tempfile.mkdtemp(prefix="convoy-bench-queue-"), "get"]),
                    ("PostgreSQL", run(address, "get")),
                    ("SQLite", run(str(own / f"get{turn}.sqlite"), "get")),
                ]:
                    output = subprocess.run(command + [url, str(count), "16"], check=True, capture_output=True, text=True)
                    results.setdefault(name, []).append(count / float(output.stdout.split()[-1]))
            base = max(results["DownloadQueue"])
            for name, rates in results.items():
                print(f"GETs by one worker, {name}: {max(rates):,.0f}/s, {max(rates) / base:.2f} of DownloadQueue")
        finally:
            web.terminate()
            web.wait()
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
