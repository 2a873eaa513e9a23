// GETs of 11 bytes, 2,000 a second, beside a large transfer in the same process: KIND URL SECURE_URL SINK_URL AUTHORITY
// LARGE_FILE DIRECTORY COUNT WARM_UP. The time of each GET is counted from when it is due. Node's timers have a resolution
// of 1 ms, so two are due at a time.
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { pipeline } from "node:stream/promises";

const [kind, address, secure, sink, authority, file, directory, count, warmUp] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true });
let isOver = false;

function response(url, options = {}) {
  return new Promise((resolve, reject) => http.get(url, { agent, ...options }, resolve).on("error", reject));
}

async function download(number, headers) {
  await pipeline(await response(`${address}/large`, { headers }), fs.createWriteStream(`${directory}/node-${number}`));
}

const transfers = {
  download: () => download(0, {}),
  segments: () => {
    const part = fs.statSync(file).size / 4;
    return Promise.all([0, 1, 2, 3].map((number) =>
      download(number, { Range: `bytes=${part * number}-${part * (number + 1) - 1}` })));
  },
  upload: () => new Promise((resolve, reject) => {
    const headers = { "Content-Length": fs.statSync(file).size };
    const request = http.request(sink, { method: "PUT", agent, headers }, (answer) => answer.resume().on("end", resolve));
    request.on("error", reject);
    fs.createReadStream(file).pipe(request);
  }),
  http2: async () => {
    const session = http2.connect(secure, { ca: fs.readFileSync(authority) });
    try {
      await pipeline(session.request({ ":path": "/large" }), fs.createWriteStream(`${directory}/node-0`));
    } finally {
      session.close();
    }
  },
};

async function repeat() {
  while (!isOver) await transfers[kind]();
}

async function get(due, times) {
  let received = 0;
  for await (const chunk of await response(sink)) received += chunk.length;
  if (received === 11) times.push(performance.now() - due);
}

async function getAll(total) {
  const times = [];
  const all = [];
  const start = performance.now() + 1;
  await new Promise((resolve) => {
    const step = () => {
      while (all.length < total && performance.now() >= start + Math.floor(all.length / 2)) {
        all.push(get(start + Math.floor(all.length / 2), times));
      }
      if (all.length < total) setTimeout(step, 1); else resolve();
    };
    step();
  });
  await Promise.all(all);
  return times;
}

const running = repeat().catch((error) => {
  if (isOver) return;
  console.error(error);
  process.exit(1);
});
await getAll(Number(warmUp));
const milliseconds = await getAll(Number(count));
isOver = true;
const status = fs.readFileSync("/proc/self/status", "utf8");
process.stdout.write(
  JSON.stringify({ milliseconds, peakKilobytes: Number(/VmHWM:\s+(\d+)/.exec(status)[1]) }), () => process.exit(0));
