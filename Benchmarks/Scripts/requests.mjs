// GETs of one URL: URL COUNT IN_FLIGHT WARM_UP BYTES [AUTHORITY]. With an authority, over one HTTP/2 connection.
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";

const [address, count, inFlight, warmUp, bytes, authority] = process.argv.slice(2);
const url = new URL(address);
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(inFlight) });
const session = authority ? http2.connect(url.origin, { ca: fs.readFileSync(authority) }) : null;

function getHTTP1(done) {
  http.get(url, { agent }, (response) => {
    let received = 0;
    response.on("data", (chunk) => { received += chunk.length; });
    response.on("end", () => done(response.statusCode === 200 && received === Number(bytes)));
  }).on("error", () => done(false));
}

function getHTTP2(done) {
  const stream = session.request({ ":path": url.pathname });
  let received = 0, status = 0;
  stream.on("response", (headers) => { status = headers[":status"]; });
  stream.on("data", (chunk) => { received += chunk.length; });
  stream.on("end", () => done(status === 200 && received === Number(bytes)));
  stream.on("error", () => done(false));
}

const get = session ? getHTTP2 : getHTTP1;

function run(total) {
  return new Promise((resolve) => {
    let started = 0, finished = 0, failed = 0;
    const next = () => {
      if (started >= total) return;
      started += 1;
      get((isRight) => {
        if (!isRight) failed += 1;
        finished += 1;
        if (finished === total) resolve(failed); else next();
      });
    };
    for (let i = 0; i < Number(inFlight); i += 1) next();
  });
}

let failed = await run(Number(warmUp));
const cpu = process.cpuUsage();
const start = process.hrtime.bigint();
failed += await run(Number(count));
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
const used = process.cpuUsage(cpu);
const status = fs.readFileSync("/proc/self/status", "utf8");
console.log(JSON.stringify({
  seconds, cpuSeconds: (used.user + used.system) / 1e6,
  peakKilobytes: Number(/VmHWM:\s+(\d+)/.exec(status)[1]), failed,
}));
session?.close();
agent.destroy();
