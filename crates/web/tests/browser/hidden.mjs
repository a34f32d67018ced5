// Hides a live tab behind another one, with a limit of one stream per person, and prints which tab is live.
// Usage: node hidden.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  // A hidden tab has no animation frames.
  const polling = 100;
  const live = (tab) => tab.waitForFunction(() => document.body.dataset.connected, { polling });
  await live(page);
  console.log("first is live");
  const other = await browser.newPage();
  await other.bringToFront();
  await page.waitForFunction(() => document.hidden && !document.body.dataset.connected, { polling });
  console.log("first is hidden and not live");
  // The server allows this person one stream: it must be free.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await other.goto(`${origin}/ui/numbers`, { waitUntil: "load" });
  await live(other);
  console.log("second is live");
  await other.close();
  await page.bringToFront();
  await live(page);
  console.log("first is live again");
} finally {
  await browser.close();
}
