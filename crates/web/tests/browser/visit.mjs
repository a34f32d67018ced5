// Visits pages in a real Chromium and prints the results as JSON.
// Usage: node visit.mjs LINK SCREENSHOTS PAGE..., with NODE_MODULES and CHROMIUM in the environment.
// A page is a path, or the result of a form: `PATH >> BUTTON`, or `PATH >> BUTTON >> TEXT` for its text area.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [link, screenshots, ...pages] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const origin = new URL(link).origin;
mkdirSync(screenshots, { recursive: true });

const report = { faults: [], foreign: [], violations: [], unreached: [], executed: false, visited: 0, control: "" };
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
});

/** The violations that axe-core finds on a page. */
async function violations(page) {
  // The debugging protocol can evaluate code that the CSP of the page forbids.
  const client = await page.createCDPSession();
  await client.send("Runtime.evaluate", { expression: axe });
  const { result } = await client.send("Runtime.evaluate", {
    expression: `axe.run(document, { resultTypes: ["violations"] }).then((found) => JSON.stringify(
      found.violations.map((one) => one.id + " " + one.nodes.map((node) => node.target.join(" ")).slice(0, 3))))`,
    awaitPromise: true,
  });
  await client.detach();
  return JSON.parse(result.value ?? '["axe-core did not run"]');
}

/** Opens a page, and sends its form if the address names a button. */
async function open(page, address) {
  const [path, button, text] = address.split(" >> ");
  const response = await page.goto(origin + path, { waitUntil: "load" });
  if (!button) return response;
  const send = (one, text) => {
    if (text !== undefined) one.form.querySelector("textarea").value = text;
    one.click();
  };
  const [answer] = await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.$eval(button, send, text)]);
  return answer;
}

/** The index of each control that cannot be reached with the Tab key. Live updates can replace elements. */
async function unreached(page) {
  const state = () =>
    page.evaluate(() => {
      const all = [...document.querySelectorAll("a[href]:not([tabindex='-1']), button, input, select, textarea, [tabindex='0']")];
      const used = all.filter((one) => !one.disabled && one.type !== "hidden" && one.checkVisibility());
      return { count: used.length, at: used.indexOf(document.activeElement) };
    });
  await page.evaluate(() => document.activeElement?.blur());
  const { count } = await state();
  const reached = new Set();
  for (let step = 0; step < count + 10; step += 1) {
    await page.keyboard.press("Tab");
    reached.add((await state()).at);
  }
  return [...Array(count).keys()].filter((index) => !reached.has(index));
}

/** A tab whose faults are reported. */
async function newTab(context) {
  const page = await context.newPage();
  // Long timeouts, because the machine can be busy.
  page.setDefaultNavigationTimeout(300000);
  page.setDefaultTimeout(120000);
  page.on("pageerror", (error) => report.faults.push(`page: ${error.message}`));
  page.on("console", (message) => {
    // The editor refuses invalid text with a page of status 422.
    const isRefusal = message.text().includes("status of 422");
    if (message.type() === "error" && !isRefusal) report.faults.push(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    report.executed = true;
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(origin) && !address.startsWith("data:")) report.foreign.push(address);
  });
  await page.evaluateOnNewDocument(() => {
    window.reports = [];
    document.addEventListener("securitypolicyviolation", (event) => {
      window.reports.push(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  return page;
}

// Who is signed in is led away from this page.
const SIGN_IN = "/ui/sign-in";

try {
  const page = await newTab(browser);
  // Without a cookie.
  const signedOut = await newTab(await browser.createBrowserContext());
  const tabOf = (path) => (path === SIGN_IN ? signedOut : page);
  await page.goto(link);
  await page.waitForSelector("header.bar", { timeout: 30000 });
  for (const theme of ["light", "dark"]) {
    const features = [{ name: "prefers-color-scheme", value: theme }];
    for (const tab of [page, signedOut]) await tab.emulateMediaFeatures(features);
    for (const width of [320, 1280]) {
      for (const tab of [page, signedOut]) await tab.setViewport({ width, height: 900 });
      for (const [index, path] of pages.entries()) {
        const page = tabOf(path);
        await page.bringToFront();
        const response = await open(page, path);
        // A form leads to another address.
        const isMoved = !path.includes(" >> ") && page.url() !== origin + path;
        if (isMoved) report.faults.push(`${path} leads to ${page.url()}`);
        const expected = path.includes(" >> ") ? [200, 422] : [200];
        if (!expected.includes(response.status())) report.faults.push(`${path}: ${response.status()}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) report.faults.push(`${path} is ${wide} px too wide at ${width} px`);
        for (const one of await violations(page)) report.violations.push(`${path} ${theme} ${width}: ${one}`);
        if (theme === "light" && width === 1280) {
          for (const one of await unreached(page)) report.unreached.push(`${path}: ${one}`);
        }
        const end = path.includes(" >> ") ? `-${index}` : "";
        const name = path.replace(/^\/ui\//, "").replaceAll(/[^a-z0-9]+/gi, "-").slice(0, 100) + end;
        await page.screenshot({ path: join(screenshots, `${name}-${theme}-${width}.png`) });
        for (const csp of await page.evaluate(() => window.reports)) report.faults.push(`csp ${path}: ${csp}`);
        report.visited += 1;
      }
    }
  }
  // Shortcuts are listed, lead to pages, and can be switched off.
  await page.bringToFront();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(origin + pages[0], { waitUntil: "load" });
  const isOpen = () => page.$eval("[data-help]", (help) => help.open);
  await page.keyboard.press("?");
  report.keys = [await isOpen()];
  for (const one of await violations(page)) report.violations.push(`help: ${one}`);
  await page.keyboard.press("Escape");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("g").then(() => page.keyboard.press("n"))]);
  report.keys.push(new URL(page.url()).pathname);
  await page.click("[data-help-open]");
  await page.click("[data-keys-toggle]");
  await page.click("[data-help-close]");
  await page.keyboard.press("?");
  report.keys.push(await isOpen());
  await page.click("[data-help-open]");
  await page.click("[data-keys-toggle]");
  await page.click("[data-help-close]");
  await page.keyboard.press("?");
  report.keys.push(await isOpen());
  await page.keyboard.press("Escape");
  // A part that is marked as read is closed, and stays closed.
  await page.goto(`${origin}/ui/local/fix-42/changes`, { waitUntil: "load" });
  const state = () =>
    page.evaluate(() => [
      document.querySelector("[data-read-count]").textContent,
      document.querySelector(".diff tr.add").checkVisibility(),
    ]);
  report.read = [await state()];
  await page.focus("[data-read]");
  await page.keyboard.press("Space");
  report.read.push(await state());
  await page.reload({ waitUntil: "load" });
  report.read.push(await state());
  await page.click("[data-read]");
  report.read.push(await state());
  // Positive control: axe-core finds a known violation.
  await page.evaluate(() => document.querySelector("main").append(Object.assign(new Image(), { src: "data:," })));
  report.control = (await violations(page)).join("\n");
} finally {
  await browser.close();
}
console.log(JSON.stringify(report));
