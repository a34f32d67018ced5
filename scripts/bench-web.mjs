// Measures pages in a real Chromium; started by bench-web.
// Usage: node bench-web.mjs LINK SERVER_PID TABS LIVE_RUN, with NODE_MODULES and CHROMIUM in the environment.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { join } from "node:path";

const [link, server, tabs, live] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const origin = new URL(link).origin;
const SAMPLES = 30;

const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
function report(name, values, unit) {
  const sorted = [...values].sort((one, other) => one - other);
  console.log(`${name.padEnd(44)} p50 ${at(sorted, 0.5).toFixed(1)} ${unit}, p95 ${at(sorted, 0.95).toFixed(1)} ${unit}`);
}

/** A bare exchange of one line on loopback: what nothing can be faster than. */
function loopback() {
  return new Promise((resolve) => {
    const echo = createServer((socket) => socket.pipe(socket)).listen(0, "127.0.0.1", () => {
      const socket = connect(echo.address().port, "127.0.0.1");
      const times = [];
      let start = 0;
      const send = () => {
        start = performance.now();
        socket.write("event\n");
      };
      socket.on("connect", send);
      socket.on("data", () => {
        times.push(performance.now() - start);
        if (times.length < SAMPLES) return send();
        socket.destroy();
        echo.close();
        resolve(times);
      });
    });
  });
}

const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server}/status`, "utf8"))[1]);

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  protocolTimeout: 600000,
});
try {
  const page = await browser.newPage();
  await page.goto(link);
  await page.waitForSelector("header.bar", { timeout: 60000 });
  report("bare exchange on loopback", await loopback(), "ms");

  await page.goto(`${origin}/ui/local/${live}`);
  await page.waitForSelector("body[data-connected]", { timeout: 60000 });
  const delays = await page.evaluate(
    (samples) =>
      new Promise((resolve) => {
        const found = [];
        const seen = new Set([...document.querySelectorAll(".row")].map((row) => row.id));
        new MutationObserver(() => {
          for (const row of document.querySelectorAll(".row")) {
            if (seen.has(row.id)) continue;
            seen.add(row.id);
            const time = row.querySelector(".mark")?.title;
            if (time) found.push(Date.now() - Date.parse(time));
          }
          if (found.length >= samples) resolve(found);
        }).observe(document.body, { subtree: true, childList: true });
        setTimeout(() => resolve(found), 120000);
      }),
    SAMPLES,
  );
  report(`event to DOM (${delays.length} events)`, delays, "ms");

  const pages = {
    "run with many events": "/ui/local/many",
    "run with 500 events": "/ui/local/few",
    "diff of 5,000 lines": "/ui/local/long/changes",
    "diff of 50,000 lines": "/ui/local/longer/changes",
    "list of runs": "/ui/runs",
    inbox: "/ui/inbox",
  };
  for (const [name, path] of Object.entries(pages)) {
    const times = [];
    let bytes = 0;
    for (let round = 0; round < 5; round += 1) {
      const start = performance.now();
      const response = await page.goto(origin + path, { waitUntil: "load", timeout: 120000 });
      times.push(performance.now() - start);
      bytes = Number(response.headers()["content-length"] ?? 0) || (await response.buffer()).length;
      if (response.status() !== 200) throw new Error(`${path}: ${response.status()}`);
    }
    const rows = await page.evaluate(() => document.querySelectorAll(".row, .diff tr, .runs > li").length);
    report(`${name}, ${rows} rows, ${(bytes / 1024).toFixed(0)} KiB`, times, "ms");
  }

  const before = memory();
  for (let tab = 0; tab < Number(tabs); tab += 1) {
    // A browser context of its own, so that the tabs do not share their connections.
    const context = await browser.createBrowserContext();
    await context.setCookie(...(await browser.cookies()));
    const other = await context.newPage();
    await other.goto(`${origin}/ui/runs`);
  }
  const each = (memory() - before) / Number(tabs);
  console.log(`${"memory of the server per open tab".padEnd(44)} ${each.toFixed(0)} KiB (${tabs} tabs)`);
} finally {
  await browser.close();
}
