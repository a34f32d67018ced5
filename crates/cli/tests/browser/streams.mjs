// Follows runs in a real Chromium while the connection is cut and the server is killed, and prints what the pages show
// at the end. An agent says its next line only when this program lets it, so that all of them write at every cut.
// Usage: node streams.mjs PROGRAM WORKTREES CUTS KILLS RUN…, with NODE_MODULES and CHROMIUM in the environment.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [program, worktrees, cuts, kills, ...runs] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

// The server, which can be killed and started again at the same address.
let server = null;
let port = 0;
async function start() {
  server = spawn(program, ["ui", "--no-open", "--address", "127.0.0.1", "--port", String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  const { value: link } = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next();
  port = Number(new URL(link).port);
  return link;
}
async function kill() {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

// A connection that can be cut.
const sockets = new Set();
const relay = createServer((near) => {
  const far = connect(port, "127.0.0.1");
  for (const [one, other] of [[near, far], [far, near]]) {
    sockets.add(one);
    one.on("error", () => other.destroy());
    one.on("close", () => {
      sockets.delete(one);
      other.destroy();
    });
    one.pipe(other);
  }
});
const cut = () => [...sockets].forEach((socket) => socket.destroy());

const link = new URL(await start());
await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
link.port = relay.address().port;
const seen = { pages: {}, grown: [], faults: [] };

/** Lets every agent say its next line. */
const release = (line) => runs.forEach((run) => writeFileSync(join(worktrees, run, "src", `go-${line}`), ""));
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const first = await browser.newPage();
  await first.goto(link.href);
  await first.waitForSelector("header.bar", { timeout: 60000 });
  const cookies = await browser.cookies();
  const open = async (path) => {
    // Contexts share no connections, of which a browser has six for each server.
    const context = await browser.createBrowserContext();
    await context.setCookie(...cookies);
    const page = await context.newPage();
    page.on("pageerror", (error) => seen.faults.push(`${path}: ${error.message}`));
    await page.goto(link.origin + path);
    await page.waitForSelector("body[data-connected]", { timeout: 60000 });
    return page;
  };
  const list = await open("/ui/runs");
  const tabs = new Map();
  for (const run of runs) tabs.set(run, await open(`/ui/local/${run}`));
  // The number of the last event of a run in the store, and whether it said a line.
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  const stored = async (run, line) => {
    const response = await fetch(`http://127.0.0.1:${port}/ui/local/${run}`, { headers: { cookie } });
    // The server can refuse requests that come too fast.
    if (response.status !== 200) return { said: false };
    const page = await response.text();
    return { last: Number(/data-last="(\d+)"/.exec(page)[1]), said: page.includes(`>Line ${line}<`) };
  };
  const saying = async (run, line) => {
    for (let wait = 0; wait < 1200; wait += 1) {
      const { last, said } = await stored(run, line);
      if (said) return last;
      await pause(250);
    }
    throw new Error(`${run} does not say line ${line}`);
  };
  const all = (line) => Promise.all(runs.map((run) => saying(run, line)));
  let before = await all(1);
  const between = Math.max(1, Math.floor(Number(cuts) / Math.max(1, Number(kills))));
  for (let number = 1; number <= Number(cuts); number += 1) {
    release(number);
    await pause(Math.random() * 600);
    cut();
    if (number % between === 0 && number / between <= Number(kills)) {
      await kill();
      await pause(Math.random() * 1500);
      await start();
    }
    // Every run has written more before the next cut.
    const after = await all(number + 1);
    seen.grown.push(after.filter((last, index) => last > before[index]).length);
    before = after;
  }
  release(Number(cuts) + 1);
  const rows = (page) =>
    page.$$eval(".row", (all) => all.map((row) => [row.id, row.querySelector(".prose")?.textContent ?? ""]));
  const states = (page) =>
    page.$$eval(".runs > li", (all) => all.map((row) => [row.dataset.row, row.querySelector(".state").textContent]));
  const settled = () => !document.querySelector("[data-following]") && document.body.dataset.connected === "yes";
  for (const page of tabs.values()) await page.waitForFunction(settled, { timeout: 300000, polling: 500 });
  await list.waitForFunction(() => !document.querySelector(".runs .state.working"), { timeout: 120000, polling: 500 });
  // What the server says when it is asked now. A page may be a moment behind, and no more.
  const fresh = await browser.newPage();
  const compare = async (page, path, read) => {
    for (let round = 0; ; round += 1) {
      await fresh.goto(link.origin + path);
      const [live, stored] = [await read(page), await read(fresh)];
      if (JSON.stringify(live) === JSON.stringify(stored) || round === 60) return { live, stored };
      await pause(500);
    }
  };
  for (const [run, page] of tabs) seen.pages[run] = await compare(page, `/ui/local/${run}`, rows);
  seen.list = await compare(list, "/ui/runs", states);
} finally {
  await browser.close();
  await kill();
  relay.close();
}
console.log(JSON.stringify(seen));
process.exit(0);
