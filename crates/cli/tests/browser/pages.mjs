// Drives the pages in a real Chromium and prints what it saw as JSON.
// Usage: node pages.mjs LINK RUN SCREENSHOTS, with NODE_MODULES and CHROMIUM in the environment.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [link, run, screenshots] = process.argv.slice(2);
const modules = process.env.NODE_MODULES;
const require = createRequire(join(modules, "x.js"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const origin = new URL(link).origin;
mkdirSync(screenshots, { recursive: true });

const seen = { faults: [], foreign: [], violations: [], titles: {}, executed: false, control: "" };
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
});

/** The violations that axe-core finds on a page. */
async function violations(page) {
  // The automation may evaluate what the pages may not.
  const client = await page.createCDPSession();
  await client.send("Page.setBypassCSP", { enabled: false });
  await client.send("Runtime.evaluate", { expression: axe });
  const { result } = await client.send("Runtime.evaluate", {
    expression: `axe.run(document, { resultTypes: ["violations"] }).then((found) => JSON.stringify(
      found.violations.map((one) => one.id + " " + one.nodes.map((node) => node.target.join(" ")).slice(0, 3))))`,
    awaitPromise: true,
  });
  await client.detach();
  return JSON.parse(result.value ?? '["axe-core did not run"]');
}

/** How much wider a page is than its window. */
const excess = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

try {
  const page = await browser.newPage();
  // A busy machine is slow; that is no fault of a page.
  page.setDefaultNavigationTimeout(300000);
  page.on("pageerror", (error) => seen.faults.push(`page: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") seen.faults.push(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    seen.executed = true;
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(origin) && !address.startsWith("data:")) seen.foreign.push(address);
  });
  await page.evaluateOnNewDocument(() => {
    window.reports = [];
    document.addEventListener("securitypolicyviolation", (event) => {
      window.reports.push(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });

  // The link signs in, and leads to the runs.
  await page.goto(link);
  await page.waitForSelector(`a[href$="/local/${run}"]`, { timeout: 30000 });

  const addresses = {
    runs: "/ui/runs",
    empty: "/ui/runs?text=nothing-matches-this",
    run: `/ui/local/${run}`,
    changes: `/ui/local/${run}/changes`,
    hostile: "/ui/local/hostile",
    checks: "/ui/local/hostile/checks",
    inbox: "/ui/inbox",
    missing: "/ui/local/nobody",
  };
  for (const theme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    for (const width of [320, 1280]) {
      await page.setViewport({ width, height: 900 });
      for (const [name, path] of Object.entries(addresses)) {
        const response = await page.goto(origin + path, { waitUntil: "load" });
        seen.titles[name] = await page.title();
        if (name !== "missing" && response.status() !== 200) seen.faults.push(`${name}: ${response.status()}`);
        const wide = await excess(page);
        if (wide > 0) seen.faults.push(`${name} is ${wide} px too wide at ${width} px`);
        for (const one of await violations(page)) seen.violations.push(`${name} ${theme} ${width}: ${one}`);
        await page.screenshot({ path: join(screenshots, `${name}-${theme}-${width}.png`) });
        for (const report of await page.evaluate(() => window.reports)) seen.faults.push(`csp ${name}: ${report}`);
      }
    }
  }
  // A page with a known fault shows that axe-core runs.
  await page.evaluate(() => document.querySelector("main").append(Object.assign(new Image(), { src: "data:," })));
  seen.control = (await violations(page)).join("\n");

  // A line of a megabyte and bytes that are not UTF-8, in a change and in the output of a command.
  seen.lines = {};
  for (const width of [320, 1280]) {
    await page.setViewport({ width, height: 900 });
    for (const part of ["", "/changes", "/changes?view=split"]) {
      await page.goto(`${origin}/ui/local/hostile${part}`, { waitUntil: "load" });
      seen.lines[part] = await page.evaluate(() => {
        for (const details of document.querySelectorAll("details")) details.open = true;
        const texts = [...document.querySelectorAll(".call-parts pre, td.code")].map((one) => one.textContent);
        const counts = document.querySelector("main").textContent.match(/Characters not shown: \d+/g) ?? [];
        return {
          longest: Math.max(...texts.map((text) => text.length)),
          replaced: texts.some((text) => text.includes("\ufffd")),
          counted: counts.length,
        };
      });
      const wide = await excess(page);
      if (wide > 0) seen.faults.push(`long lines: ${part} is ${wide} px too wide at ${width} px`);
    }
  }

  // What waits for a decision.
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  seen.waiting = await page.$$eval(".runs li", (all) => all.map((one) => one.textContent));

  // What the columns of the board count, and what they show.
  await page.goto(`${origin}/ui/board`, { waitUntil: "load" });
  seen.board = await page.$$eval(".column", (all) =>
    all.map((one) => ({
      counted: Number(one.querySelector("h2 .dim").textContent),
      cards: one.querySelectorAll(".card").length,
    })),
  );

  // Every part of a real run.
  seen.parts = {};
  for (const part of ["context", "policy?command=git+push+origin+main", "cost", "lineage", "artifacts"]) {
    const response = await page.goto(`${origin}/ui/local/hostile/${part}`, { waitUntil: "load" });
    if (response.status() !== 200) seen.faults.push(`${part}: ${response.status()}`);
    seen.parts[part.split("?")[0]] = await page.$eval(".content", (content) => content.textContent);
  }
  seen.artifact = await page.evaluate(async () => {
    const link = [...document.querySelectorAll(".lines a")].find((one) => one.textContent === "changes.patch");
    const response = await fetch(link.href);
    return [response.headers.get("content-disposition"), await response.text()];
  });
  seen.faults = seen.faults.filter((one) => !one.includes("404"));

  // A question is approved with one key, and the page of the run shows what came of it without a reload.
  const other = await browser.newPage();
  await other.goto(`${origin}/ui/local/${run}`);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${origin}/ui/inbox`);
  await page.waitForSelector(".question");
  seen.asked = await page.$eval(".payload pre", (payload) => payload.textContent);
  seen.badge = await page.$eval("[data-waiting]", (badge) => badge.hidden);
  await other.bringToFront();
  await other.waitForSelector("body[data-connected]", { timeout: 30000 });
  await page.bringToFront();
  // A question takes answers only after the time that reading takes.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await page.keyboard.press("a");
  await page.waitForFunction(() => !document.querySelector(".question"), { timeout: 60000 });
  await other.bringToFront();
  await other.waitForFunction(
    () => [...document.querySelectorAll(".good .label")].some((label) => label.textContent === "ended"),
    { timeout: 120000 },
  );
  seen.live = await other.$$eval(".row.person .label", (all) => all.map((one) => one.textContent));
  // The last events can come a moment after the end; the page gets them too.
  const rows = (one) => one.$$eval(".row", (all) => all.map((row) => row.id));
  const fresh = await browser.newPage();
  for (let round = 0; round < 60; round += 1) {
    await fresh.goto(`${origin}/ui/local/${run}`);
    seen.stored = await rows(fresh);
    await other.bringToFront();
    await new Promise((resolve) => setTimeout(resolve, 500));
    seen.rows = await rows(other);
    if (JSON.stringify(seen.rows) === JSON.stringify(seen.stored)) break;
  }

  // Who gets the session: other programs on 127.0.0.1, and, as a positive control, one at the address of the page.
  seen.cookies = {};
  for (const [name, host] of [["elsewhere", "127.0.0.1"], ["beside", new URL(link).hostname]]) {
    const program = createServer((request, response) => {
      seen.cookies[name] ??= request.headers.cookie ?? "";
      response.end("<!doctype html><title>A program</title>");
    });
    await new Promise((resolve) => program.listen(0, host, resolve));
    const visit = await browser.newPage();
    await visit.goto(`http://${host}:${program.address().port}/`);
    await visit.close();
    program.closeAllConnections();
    program.close();
  }

  // Signing out ends the session. A hidden tab takes no click.
  await other.bringToFront();
  await other.click(".who button");
  await other.waitForSelector("#token");
  await page.goto(`${origin}/ui/runs`);
  seen.signedOut = page.url().includes("/sign-in");
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
