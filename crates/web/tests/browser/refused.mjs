// Prints the message of a page that gets no stream.
// Usage: node refused.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  await page.waitForSelector("[data-connection]:not([hidden])");
  console.log(await page.$eval("[data-connection]", (one) => one.textContent));
} finally {
  await browser.close();
}
