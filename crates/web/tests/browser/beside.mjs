// Waits on the changes of a run for a job to appear beside them.
// Usage: node beside.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
import { createRequire } from "node:module";
import { join } from "node:path";

const [origin] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const page = await browser.newPage();
  page.setDefaultNavigationTimeout(300000);
  page.setDefaultTimeout(300000);
  await page.goto(`${origin}/ui/sign-in`, { waitUntil: "load" });
  await page.focus("input[name=token]");
  await page.keyboard.type(process.env.TOKEN);
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
  await page.goto(`${origin}/ui/local/fix-42/changes?c=1n3`, { waitUntil: "load" });
  await page.waitForSelector("body[data-connected]");
  const requests = [];
  page.on("request", (request) => requests.push(new URL(request.url())));
  const jobs = () => page.$eval("[data-part=jobs]", (jobs) => jobs.hidden);
  await page.type("#comment", "because");
  await page.evaluate(() => (document.querySelector(".file").dataset.kept = "yes"));
  console.log(`no jobs ${await jobs()}`);
  await page.waitForFunction(() => document.querySelector("[data-part=jobs]").textContent.includes("Verify"));
  const kept = await page.evaluate(
    () => `${document.querySelector("#comment").value}, ${document.querySelector(".file").dataset.kept}`,
  );
  console.log(`job, kept ${kept}`);
  const read = requests.filter((url) => !url.pathname.endsWith("/live")).map((url) => url.pathname + url.search);
  console.log(`read ${[...new Set(read)].join(", ")}`);
} finally {
  await browser.close();
}
